"""Whether a quantity that was sampled over time still grew in the end.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: The last third counts; it is cut into so many slices, whose means are compared: single samples
#: follow one another too closely for an interval.
_SHARE = 1 / 3
_SLICES = 10
#: Student's t for 95 % and _SLICES - 2 degrees of freedom.
_STUDENT_T = 2.306


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A straight line through the last third of samples."""

    mean: float
    per_hour: float
    low_per_hour: float  #: the 95 % interval of ``per_hour``
    high_per_hour: float
    lasted_s: float  #: of the last third

    def is_below(self, per_hour: float) -> bool:
        """Whether it grows by less than that, as sure as 95 %: noise alone does not pass."""
        return self.high_per_hour <= per_hour


def growth_of(times_s: Sequence[float], values: Sequence[float]) -> Growth:
    """The growth at the end of samples, in the order of their times.

    Raises ``ValueError`` if there are fewer than two for each slice of the last third.
    """
    times, found = np.asarray(times_s), np.asarray(values, dtype=np.float64)
    begin_s = times[-1] - (times[-1] - times[0]) * _SHARE
    times, found = times[times >= begin_s], found[times >= begin_s]
    if len(times) < 2 * _SLICES:
        raise ValueError(f"{len(times)} samples in the last third: need {2 * _SLICES}")
    at_s = np.array([part.mean() for part in np.array_split(times, _SLICES)])
    means = np.array([part.mean() for part in np.array_split(found, _SLICES)])
    off_s = at_s - at_s.mean()
    slope = off_s @ means / (off_s @ off_s)
    residuals = means - means.mean() - slope * off_s
    variance = residuals @ residuals / (_SLICES - 2) / (off_s @ off_s)
    spread = _STUDENT_T * float(np.sqrt(variance))
    return Growth(
        mean=float(found.mean()),
        per_hour=float(slope) * 3600,
        low_per_hour=float(slope - spread) * 3600,
        high_per_hour=float(slope + spread) * 3600,
        lasted_s=float(times[-1] - times[0]),
    )
