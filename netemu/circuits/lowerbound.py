"""The least time that a coflow needs on an optical circuit switch, whoever schedules it.

Source: Co-scheduler, equations 1, 2 and 15; the bound T(C) by which Sunflow orders coflows.
Left open there, settled here: bytes that stay in a rack use no circuit, so the matrix's diagonal
does not count.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray


def circuit_times_s(
    size_bytes: ArrayLike, port_bytes_per_s: float, delta_s: float
) -> NDArray[np.float64]:
    """t_ij of equation 1: seconds for which each rack pair needs a circuit, set-up included.

    ``size_bytes`` is C, a square matrix of bytes from rack i to rack j.  Raises ``ValueError`` if
    it is not square or has a negative entry, and for a rate or a delay that can't be.
    """
    sizes = np.asarray(size_bytes, dtype=np.float64)
    if sizes.ndim != 2 or sizes.shape[0] != sizes.shape[1]:
        raise ValueError(f"bytes between racks of shape {sizes.shape}: need a square matrix")
    if not (sizes >= 0).all():
        raise ValueError("bytes between racks: need none below 0")
    _check_circuits(port_bytes_per_s, delta_s, wavelengths=1)
    times = np.where(sizes > 0, sizes / port_bytes_per_s + delta_s, 0.0)
    np.fill_diagonal(times, 0.0)
    return times


def lower_bound_s(
    size_bytes: ArrayLike, port_bytes_per_s: float, delta_s: float, wavelengths: int = 1
) -> float:
    """T(C) of equation 2, over W as in equation 15 if ports have W circuits at once.

    Nothing that obeys the ports can be faster; ``ValueError`` as for ``circuit_times_s``.
    """
    times = circuit_times_s(size_bytes, port_bytes_per_s, delta_s)
    _check_circuits(port_bytes_per_s, delta_s, wavelengths)
    if not times.size:
        return 0.0
    return float(max(times.sum(axis=1).max(), times.sum(axis=0).max())) / wavelengths


def lower_bound_of_pairs_s(
    pairs: Iterable[tuple[Hashable, Hashable, float]],
    port_bytes_per_s: float,
    delta_s: float,
    wavelengths: int = 1,
) -> float:
    """T(C) of a coflow given as (from rack, to rack, bytes), each pair of racks once.

    The same as ``lower_bound_s``, for coflows between few of many racks: O(pairs).
    """
    _check_circuits(port_bytes_per_s, delta_s, wavelengths)
    out_s: dict[Hashable, float] = {}
    in_s: dict[Hashable, float] = {}
    for src, dst, size_bytes in pairs:
        if size_bytes < 0:
            raise ValueError(f"{size_bytes} bytes from {src} to {dst}: need none below 0")
        if size_bytes > 0 and src != dst:
            needs_s = size_bytes / port_bytes_per_s + delta_s
            out_s[src] = out_s.get(src, 0.0) + needs_s
            in_s[dst] = in_s.get(dst, 0.0) + needs_s
    return max([*out_s.values(), *in_s.values(), 0.0]) / wavelengths


def _check_circuits(port_bytes_per_s: float, delta_s: float, wavelengths: int) -> None:
    if not port_bytes_per_s > 0:
        raise ValueError(f"port of {port_bytes_per_s} bytes/s: need a rate above 0")
    if not delta_s >= 0:
        raise ValueError(f"reconfiguration of {delta_s} s: need seconds >= 0")
    if wavelengths < 1:
        raise ValueError(f"{wavelengths} wavelengths: need at least 1")
