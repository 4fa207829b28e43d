"""The ranks of rows and their correlation, by a plain program that shares no code with the job."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from railyard.jobs.samples.sample import Files
from railyard.jobs.samples.steps import lines_of


def expected_ranks(files: Files, source: str) -> tuple[list[bytes], str]:
    """The lines of the ranks of all names, in order, and the coefficient as it is printed."""
    least: dict[bytes, tuple[int, ...]] = {}
    for line in lines_of(files, source):
        name, *numbers = line.split(b",")
        row = tuple(map(int, numbers))
        if name not in least or row < least[name]:
            least[name] = row
    names = sorted(least)
    first, second = (_ranks(np.array([least[name][of] for name in names])) for of in (0, 1))
    lines = [
        b"%s\t%s\t%s" % (name, _shown(one), _shown(other))
        for name, one, other in zip(names, first.tolist(), second.tolist(), strict=True)
    ]
    if first.min() == first.max() or second.min() == second.max():
        return lines, "undefined"
    return lines, f"{np.corrcoef(first, second)[0, 1]:.6f}"


def _ranks(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """From 1 on; the mean rank of equal ones."""
    _, group, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    means: npt.NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return means[group]


def _shown(rank: float) -> bytes:
    return f"{rank:.1f}".removesuffix(".0").encode()
