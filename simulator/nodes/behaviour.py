"""How simulated nodes differ from ideal ones: latencies, variance, stragglers, failures.

What befalls an attempt is drawn from the seed and the attempt's name alone.  So the same task is
as slow under one scheduler as under another, and what they are compared by is their own doing.
"""

from __future__ import annotations

import math
import random
import zlib

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import AttemptId

_NOT_NEGATIVE = (
    "variance",
    "launch_s",
    "fetch_s",
    "end_s",
    "progress_s",
    "shuffle_flows",
    "output_block",
    "together_s",
)


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the simulated nodes; the defaults are an ideal cluster's.  Shares are 0 to 1."""

    #: sigma of the lognormal distribution, of mean 1, by which computing times are multiplied
    variance: float = 0.0
    stragglers: float = 0.0  #: share of attempts that compute ``straggler_factor`` times as long
    straggler_factor: float = 5.0
    failures: float = 0.0  #: share of attempts that fail, at any moment of their computing
    launch_s: float = 0.0  #: from the order to launch an attempt until it can read
    fetch_s: float = 0.0  #: from the last byte of a fetch or of a block until that is known
    end_s: float = 0.0  #: from an attempt's last deed until its slot is known to be free
    #: how often attempts tell their progress, as a NodeManager's do; 0 = never, nor that they run
    progress_s: float = 0.5
    #: shuffles of more pairs of tasks are merged to about so many flows at a time, which is an
    #: approximation (see ``resourcemanager.merging``); 0 = never
    shuffle_flows: int = 0
    #: attempts write their files in blocks of at least so many bytes, which is another
    output_block: int = 0
    #: flows that would end at most so much later than another end with it, and attempts have
    #: computed at the nearest multiple of it, which is a third
    together_s: float = 0.0

    def __post_init__(self) -> None:
        for name in _NOT_NEGATIVE:
            value = getattr(self, name)
            require(0 <= value < math.inf, f"behaviour.{name}", value, "a number >= 0")
        for name in ("stragglers", "failures"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"behaviour.{name}", value, "a share in [0, 1]")
        factor = self.straggler_factor
        require(1 <= factor < math.inf, "behaviour.straggler_factor", factor, "a number >= 1")

    @property
    def is_certain(self) -> bool:
        """Whether nothing is left to chance."""
        return not (self.variance or self.stragglers or self.failures)


class Fate(msgspec.Struct, frozen=True):
    """What befalls one attempt."""

    stretch: float = 1.0  #: by which its computing time is multiplied
    fails_at: float | None = None  #: share of its computing after which it fails; None: it does not


ORDINARY = Fate()


def fate_of(attempt: AttemptId, behaviour: Behaviour, seed: int) -> Fate:
    """Draw what befalls an attempt."""
    if behaviour.is_certain:
        return ORDINARY
    dice = random.Random(zlib.crc32(f"{seed} {attempt}".encode()))
    spread, straggles, fails, when = (dice.gauss(), dice.random(), dice.random(), dice.random())
    sigma = behaviour.variance
    stretch = math.exp(sigma * spread - sigma * sigma / 2)
    if straggles < behaviour.stragglers:
        stretch *= behaviour.straggler_factor
    return Fate(stretch, when if fails < behaviour.failures else None)
