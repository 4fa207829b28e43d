"""How simulated nodes differ from ideal ones: latencies, variance, stragglers, failures.

An attempt's deviation is drawn from the seed and the attempt's name alone.  So the same task is
equally slow under every scheduler, and a comparison shows the schedulers' differences only.
"""

from __future__ import annotations

import math
import random
import zlib

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import AttemptId
from railyard.cluster.tomlfile import Duration, Size

_NOT_NEGATIVE = (
    "variance",
    "launch_s",
    "fetch_s",
    "end_s",
    "progress_s",
    "output_block",
    "together_s",
)


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the simulated nodes; by default they are ideal.  Shares are from 0 to 1."""

    #: sigma of the lognormal distribution with mean 1 that multiplies the computing times
    variance: float = 0.0
    stragglers: float = 0.0  #: share of attempts that compute ``straggler_factor`` times as long
    straggler_factor: float = 5.0  #: by which their computing is longer
    failures: float = 0.0  #: share of attempts that fail, at a random point of their computing
    launch_s: Duration = 0.0  #: from the command to launch an attempt until it can read
    fetch_s: Duration = 0.0  #: from the last byte of a fetch or block until its end is reported
    end_s: Duration = 0.0  #: from the end of an attempt's work until the core learns of it
    #: seconds between progress reports, as of a NodeManager; 0 = attempts report only their end
    progress_s: Duration = 0.5
    #: attempts write their files in blocks of at least this many bytes; an approximation
    output_block: Size = 0
    #: flows that would end within this time after another end with it, and the ends of computing
    #: are rounded to multiples of it; an approximation too
    together_s: Duration = 0.0

    def __post_init__(self) -> None:
        for name in _NOT_NEGATIVE:
            value = getattr(self, name)
            require(0 <= value < math.inf, f"behaviour.{name}", value, "a number >= 0")
        for name in ("stragglers", "failures"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"behaviour.{name}", value, "a share in [0, 1]")
        factor = self.straggler_factor
        require(1 <= factor < math.inf, "behaviour.straggler_factor", factor, "a number >= 1")

    def without_effect(self) -> dict[str, str]:
        """{key that the values of others switch off: what it needs}"""
        if not self.stragglers:
            return {"straggler_factor": "stragglers above 0"}
        return {} if self.straggler_factor > 1 else {"stragglers": "straggler_factor above 1"}

    @property
    def is_certain(self) -> bool:
        """Whether all attempts run without a random deviation."""
        return not (self.variance or self.stragglers or self.failures)

    @property
    def is_prompt(self) -> bool:
        """Whether attempts and fetches have no latencies."""
        return not (self.launch_s or self.fetch_s)

    @property
    def is_coarse(self) -> bool:
        """Whether blocks or ends are merged, which is an approximation."""
        return bool(self.output_block or self.together_s)


class Deviation(msgspec.Struct, frozen=True):
    """How one attempt deviates from the ideal."""

    stretch: float = 1.0  #: factor of its computing time
    fails_at: float | None = None  #: share of its computing after which it fails; None = never


NO_DEVIATION = Deviation()


def draw_deviation(attempt: AttemptId, behaviour: Behaviour, seed: int) -> Deviation:
    """The deviation of an attempt, drawn from the seed and its name."""
    if behaviour.is_certain:
        return NO_DEVIATION
    dice = random.Random(zlib.crc32(f"{seed} {attempt}".encode()))
    spread, straggles, fails, when = (dice.gauss(), dice.random(), dice.random(), dice.random())
    sigma = behaviour.variance
    stretch = math.exp(sigma * spread - sigma * sigma / 2)
    if straggles < behaviour.stragglers:
        stretch *= behaviour.straggler_factor
    return Deviation(stretch, when if fails < behaviour.failures else None)
