"""How unequal the shares of racks or sites in an input are.

The shares follow Zipf's law: that of the k-th rack is in proportion to 1 / k**s.  A user says s
(``skew=1.2``), or how many times as much lies in the rack with most as in that with least
(``skew_ratio=8``).  Which rack is the k-th is drawn by seed, for each input on its own.

Shares place the first replica of each block; the others go by the block store's rule.
``jobs.workloads.model`` gives the parts of an input to racks by their shares, for both clocks.
"""

from __future__ import annotations

import math
import random

import msgspec

from railyard.cluster.errors import UsageError, require

#: Largest exponent and ratio: with larger ones, one rack has everything anyway.
EXPONENT_MAX, RATIO_MAX = 16.0, 1e9


class Skew(msgspec.Struct, frozen=True):
    """How unequal the racks' shares of an input are."""

    exponent: float | None = None  #: of Zipf's law; 0 = equal shares
    ratio: float | None = None  #: instead of the exponent: the largest share / the smallest

    def shares(self, racks: int, key: str) -> tuple[float, ...]:
        """The shares of rack r0, r1, ...; ``key`` decides which rack has the largest.

        Raises ``UsageError`` if there is one rack, which has everything.
        """
        exponent = self.exponent or 0.0
        even = not exponent if self.ratio is None else self.ratio == 1
        name, value = ("skew", self.exponent) if self.ratio is None else ("skew_ratio", self.ratio)
        right = "racks that differ: there is one, and it has everything"
        require(racks > 1 or even, name, value, right)
        if self.ratio is not None and not even:
            exponent = math.log(self.ratio) / math.log(racks)
        weights = [(rank + 1) ** -exponent for rank in range(racks)]
        random.Random(f"skew {key}").shuffle(weights)
        total = math.fsum(weights)
        return tuple([weight / total for weight in weights])

    def __str__(self) -> str:
        """The options that say the same, for the names of files: "skew1.2"."""
        return f"skew{self.exponent:g}" if self.ratio is None else f"ratio{self.ratio:g}"


def skew_of(skew: float | None, skew_ratio: float | None) -> Skew | None:
    """The skew that two options of these names say; None if neither is given.

    Raises ``UsageError`` for both, or a value out of range.
    """
    if skew is None and skew_ratio is None:
        return None
    if skew is not None and skew_ratio is not None:
        raise UsageError("skew and skew_ratio: both say how unequal shares are: need one of them")
    right = f"an exponent of Zipf's law, 0 to {EXPONENT_MAX:g}"
    require(0 <= (skew or 0) <= EXPONENT_MAX, "skew", skew, right)
    right = f"most / least, 1 to {RATIO_MAX:,.0f}"
    require(skew_ratio is None or 1 <= skew_ratio <= RATIO_MAX, "skew_ratio", skew_ratio, right)
    return Skew(skew, skew_ratio)
