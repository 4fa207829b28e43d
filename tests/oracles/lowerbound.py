"""The least time that a coflow needs on an optical circuit switch, whoever schedules it.

Source: Co-scheduler, equations 1, 2 and 15; the bound T(C) by which Sunflow orders coflows.
Left open there, settled here: bytes that stay in a rack use no circuit, so the matrix's diagonal
does not count.
"""

from __future__ import annotations

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


def _check_circuits(port_bytes_per_s: float, delta_s: float, wavelengths: int) -> None:
    if not port_bytes_per_s > 0:
        raise ValueError(f"port of {port_bytes_per_s} bytes/s: need a rate above 0")
    if not delta_s >= 0:
        raise ValueError(f"reconfiguration of {delta_s} s: need seconds >= 0")
    if wavelengths < 1:
        raise ValueError(f"{wavelengths} wavelengths: need at least 1")
