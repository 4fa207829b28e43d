"""How many reduces should be on each of how many racks.

Source: Co-scheduler, section IV-E.2, equations 1, 2, 11 and 15.  SM_i is the map output on rack i,
D how many reduces each rack gets, CCT the least time that the shuffle needs on circuits, T(C).
Left open there, settled here: where no whole numbers of tasks give every rack a flow of T_e, that
R_red is left out; CCT is that of map and reduce racks that have none in common, since the racks are
chosen later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, kw_only=True)
class Circuits:
    """What a shuffle asks of the circuit switch."""

    port_bytes_per_s: float  #: BW_OCS
    reconfigure_s: float  #: delta
    elephant_bytes: float  #: T_e
    wavelengths: int = 1  #: W


@dataclass(frozen=True)
class Schedule:
    """A possible schedule [R_red, D, CCT]; R_red is how long ``tasks`` is."""

    tasks: tuple[int, ...]  #: D: reduces for each rack, descending
    cct_s: float


def possible_schedules(
    outputs_bytes: Iterable[float],
    reduces: int,
    circuits: Circuits,
    racks: int,
    among: Sequence[int] = (),
) -> list[Schedule]:
    """A schedule for each R_red from 1 to floor(SM_1 / T_e) (eq. 11), at most ``racks``.

    ``among`` are the values that were predicted for a recurring job; they only count as far as the
    real output bears them, and if it bears none, all others do.  No schedule if no rack has T_e.
    """
    large = [size for size in outputs_bytes if size >= circuits.elephant_bytes]
    if not large:
        return []
    widest = min(int(min(large) // circuits.elephant_bytes), racks, reduces)
    widths: Sequence[int] = [width for width in among if width <= widest]
    placements = [placement(large, reduces, width, circuits) for width in widths]
    if not any(placements):
        placements = [placement(large, reduces, n, circuits) for n in range(1, widest + 1)]
    return [Schedule(tasks, cct_s(large, tasks, circuits)) for tasks in placements if tasks]


def placement(
    outputs_bytes: Sequence[float], reduces: int, width: int, circuits: Circuits
) -> tuple[int, ...] | None:
    """D for R_red = ``width``, descending; None if a flow would be too small for a circuit.

    The paper fills every rack until the smallest output SM_1 gives it a flow of T_e, then puts each
    further reduce on the rack with the least data.  All reduces are alike, so that is the rack with
    the fewest, and what comes out is an even split: no loop is needed.
    """
    # SM_1 k / N_R >= T_e; N_R on one rack are always enough, however this is rounded
    least = min(reduces, max(1, ceil(circuits.elephant_bytes * reduces / min(outputs_bytes))))
    if width * least > reduces:
        return None
    share, more = divmod(reduces, width)
    return (share + 1,) * more + (share,) * (width - more)


def cct_s(outputs_bytes: Sequence[float], tasks: Sequence[int], circuits: Circuits) -> float:
    """T(C) of equations 2 and 15 for C_ij = SM_i d_j / N_R; ``netemu.bounds`` for this shape.

    The longest row is that of the largest output, the longest column that of the most reduces.
    """
    rate, delta = circuits.port_bytes_per_s, circuits.reconfigure_s
    row_s = max(outputs_bytes) / rate + len(tasks) * delta
    column_s = sum(outputs_bytes) * max(tasks) / sum(tasks) / rate + len(outputs_bytes) * delta
    return max(row_s, column_s) / circuits.wavelengths
