"""On how many racks a job's input and its maps should be.

Source: Co-scheduler (Li and Shen, IEEE/ACM Transactions on Networking, 2022), section IV-D,
equations 3 to 10.  R_map is the number of racks that run maps, R_red that run reduces, R_data that
hold one replica of the input; T_e is the least size of a flow that rides a circuit.
Left open there, chosen here: R_data is at least 1 for a shuffle-heavy job and at most what leaves
every replica racks of its own; a flow of exactly T_e is large enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from random import Random

import numpy as np
import numpy.typing as npt

from railyard.cluster.ids import RackId

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Hybrid:
    """What a guideline asks of the network and of the racks."""

    racks: int
    slots: int  #: of a rack
    eps_bytes_per_s: float  #: BW_EPS: a rack's link to the packet-switched core
    ocs_bytes_per_s: float  #: BW_OCS: a circuit
    elephant_bytes: float  #: T_e
    replicas: int = 3
    bounded: bool = False  #: a shuffle takes as long as its largest rack, rather than by eq. 10

    @property
    def racks_max(self) -> int:
        """The most racks for one replica, so that all replicas' racks are disjoint; at least 1."""
        return max(1, self.racks // self.replicas)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A communication stage of a recurring job: maps, reduces and what is between them."""

    maps: int
    map_s: float  #: time of one of them
    reduces: int
    reduce_s: float
    shuffle_bytes: float  #: D_shu


@dataclass(frozen=True)
class Guideline:
    """How many racks run maps, and how many may run reduces."""

    map_racks: int  #: R_map, and R_data by equation 3
    reduce_racks: tuple[int, ...] = ()  #: the values of R_red to choose from; () = not predicted


def guideline(input_bytes: float, sir: float, hybrid: Hybrid) -> Guideline | None:
    """Equation 7, for a job of which only the input size is known; ``sir`` is shuffle / input.

    None for a job that is not shuffle-heavy: its whole shuffle is less than T_e.
    """
    shuffle_bytes = input_bytes * sir
    if shuffle_bytes < hybrid.elephant_bytes:
        return None
    # floor(sqrt(x)) is isqrt(floor(x)); at least 1 as x is
    racks = isqrt(int(shuffle_bytes // hybrid.elephant_bytes))
    return Guideline(min(racks, hybrid.racks_max))


def latency_matrix(job: Expected, hybrid: Hybrid) -> tuple[Floats, Flags]:
    """L(R_map, R_red) of equation 8 in seconds, and where the shuffle uses circuits.

    Row i and column j stand for R_map = i + 1 and R_red = j + 1.  O(racks^2), in numpy.
    """
    counts = np.arange(1, hybrid.racks + 1, dtype=np.float64)
    map_racks, reduce_racks = counts[:, np.newaxis], counts[np.newaxis, :]
    maps_s = np.ceil(job.maps / (map_racks * hybrid.slots)) * job.map_s
    reduces_s = np.ceil(job.reduces / (reduce_racks * hybrid.slots)) * job.reduce_s
    flow_bytes = job.shuffle_bytes / (map_racks * reduce_racks)
    circuits = flow_bytes >= hybrid.elephant_bytes
    rate = np.where(circuits, hybrid.ocs_bytes_per_s, hybrid.eps_bytes_per_s)
    crossing_bytes = flow_bytes * (reduce_racks - 1)  # eq. 10
    if hybrid.bounded:
        # What a rack sends or gets at least, of which eq. 10 has only the sending and not all of it
        crossing_bytes = flow_bytes * np.maximum(map_racks, reduce_racks)
    return maps_s + crossing_bytes / rate + reduces_s, circuits  # eq. 9, 8


def recurring_guideline(job: Expected, hybrid: Hybrid, factor: float) -> Guideline | None:
    """The smallest R_map of the zone in which the shuffle uses circuits and latency is low.

    That zone (green in Fig. 4, not defined there) is taken to be all entries with circuits whose
    latency is at most ``factor`` times the best of them.  None if the job can't use circuits.
    """
    latency_s, circuits = latency_matrix(job, hybrid)
    latency_s = np.where(circuits, latency_s, np.inf)[: hybrid.racks_max]
    best_s = latency_s.min()
    if not np.isfinite(best_s):
        return None
    zone = latency_s <= factor * best_s
    row = int(zone.any(axis=1).argmax())
    return Guideline(row + 1, tuple((np.flatnonzero(zone[row]) + 1).tolist()))


def replica_racks(
    racks: Sequence[RackId], count: int, replicas: int, dice: Random
) -> tuple[tuple[RackId, ...], ...]:
    """Disjoint sets of ``count`` of the racks, one for each replica, by chance.

    As many as there are racks for: where a set would not be whole there is none.
    """
    count = min(count, max(1, len(racks) // replicas))
    chosen = dice.sample(racks, min(len(racks), count * replicas))
    sets = [tuple(chosen[at : at + count]) for at in range(0, len(chosen), count)]
    return tuple(each for each in sets if len(each) == count)
