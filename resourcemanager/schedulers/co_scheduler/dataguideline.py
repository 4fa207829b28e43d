"""The data placement guideline: on how many racks a job's input and its maps should be.

Source: Co-scheduler (Li and Shen, IEEE/ACM Transactions on Networking, 2022), section IV-D,
equations 3 to 10, and the hybrid network as its formulas see it (II).  The network's figures (T_e,
delta, W, both bandwidths) are the topology's; without [ocs] no shuffle is large enough for
circuits.  R_map is the number of racks that run maps, R_red of those that run reduces, R_data of
those that hold one replica of the input.  Task times of recurring jobs are as in Corral's latency
response function: the bytes of a task by the rate of a slot.  Of a DAG of stages (section VI) the
stages that read files count, and the stage that reads most of their output; later stages go by
their real input.
Left open there, chosen here: R_data is at least 1 for a shuffle-heavy job and at most what leaves
every replica racks of its own; a flow of exactly T_e is large enough for a circuit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isqrt
from random import Random
from statistics import fmean
from typing import Any

import numpy as np

from railyard.cluster.ids import RackId
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute
from railyard.netemu.model.arrays import Bools, Floats
from railyard.resourcemanager.interface.estimates import predicted_task_s
from railyard.resourcemanager.interface.forecast import Forecast


@dataclass(frozen=True, kw_only=True)
class Hybrid:
    """Racks that are all alike, joined by packet switches (EPS) and a circuit switch (OCS)."""

    racks: int
    slots: int  #: task slots of one rack
    eps_bytes_per_s: float  #: BW_EPS: a rack's link to the packet-switched core
    ocs_bytes_per_s: float  #: BW_OCS: one circuit
    elephant_bytes: float  #: T_e: the least that one rack sends to another over a circuit
    delta_s: float = 0.0  #: delta: how long a circuit takes to set up
    wavelengths: int = 1  #: W: circuits that a rack can have at once
    replicas: int = 3  #: of each block
    shuffle_bound: bool = False  #: as in ``CoConfig``, which has another default

    @classmethod
    def of(cls, topology: Topology, *, shuffle_bound: bool = False) -> Hybrid:
        """A topology's figures; racks that differ count with their mean."""
        racks, ocs = topology.rack_list(), topology.ocs
        eps = fmean(rack.uplink_bytes_per_s for rack in racks)
        return cls(
            racks=len(racks),
            slots=max(1, topology.slots // len(racks)),
            eps_bytes_per_s=eps,
            ocs_bytes_per_s=ocs.port_bytes_per_s if ocs else eps,
            elephant_bytes=ocs.elephant_bytes if ocs else inf,
            delta_s=ocs.delta_s if ocs else 0.0,
            wavelengths=ocs.wavelengths if ocs else 1,
            replicas=topology.storage.replication,
            shuffle_bound=shuffle_bound,
        )

    @property
    def racks_max(self) -> int:
        """The most racks for one replica, so that all replicas' racks are disjoint; at least 1."""
        return max(1, self.racks // self.replicas)


#: Latencies that differ by a smaller share may be equal.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class DataGuideline:
    """How many racks run a job's maps, and how many may run its reduces."""

    map_racks: int  #: R_map, and R_data by equation 3; 0 = the job is not shuffle-heavy
    reduce_racks: tuple[int, ...] = ()  #: values of R_red to choose from; () = all that fit


# Non-recurring jobs: IV-D.1 ----------------------------------------------------------------------
def data_guideline(shuffle_bytes: float, hybrid: Hybrid) -> DataGuideline | None:
    """Equation 7; ``shuffle_bytes`` is Input x SIR.

    None for a job that is not shuffle-heavy: its whole shuffle is less than T_e.
    """
    if shuffle_bytes < hybrid.elephant_bytes:
        return None
    # floor(sqrt(x)) is isqrt(floor(x)); at least 1 as x is
    racks = isqrt(int(shuffle_bytes // hybrid.elephant_bytes))
    return DataGuideline(min(racks, hybrid.racks_max))


# Recurring jobs: IV-D.2 --------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class ShuffleForecast:
    """The predicted maps and reduces of a recurring job, and the shuffle between them."""

    maps: int
    map_s: float  #: mean time of one map
    reduces: int
    reduce_s: float  #: time of one reduce
    shuffle_bytes: float  #: D_shu


def shuffle_forecast(
    forecast: Forecast, compute: Compute, error: float = 1.0
) -> ShuffleForecast | None:
    """The largest shuffle of a job's maps; None if nothing reads what maps write.

    ``error`` is what predicted sizes are multiplied by, to see what wrong forecasts do.
    """
    maps = {stage.name: stage for stage in forecast.stages if not stage.reads}
    read_bytes = {
        stage.name: sum(maps[name].output_bytes for name in stage.reads if name in maps)
        for stage in forecast.stages
        if stage.reads
    }
    if not any(read_bytes.values()):
        return None
    most = max(read_bytes, key=lambda name: read_bytes[name])
    [reduces] = [stage for stage in forecast.stages if stage.name == most]
    parents = [maps[name] for name in reduces.reads if name in maps]
    tasks = sum(stage.tasks for stage in parents)
    work_s = sum(stage.tasks * predicted_task_s(stage, compute, error) for stage in parents)
    return ShuffleForecast(
        maps=tasks,
        map_s=work_s / tasks,
        reduces=reduces.tasks,
        reduce_s=predicted_task_s(reduces, compute, error),
        shuffle_bytes=read_bytes[most] * error,
    )


def latency_matrix(job: ShuffleForecast, hybrid: Hybrid) -> tuple[Floats, Bools]:
    """L(R_map, R_red) of equation 8 in seconds, and where the shuffle uses circuits.

    Row i and column j stand for R_map = i + 1 and R_red = j + 1.  O(racks^2), in numpy.
    """
    counts = np.arange(1, hybrid.racks + 1)
    map_racks, reduce_racks = counts[:, np.newaxis], counts[np.newaxis, :]
    circuits = job.shuffle_bytes / (map_racks * reduce_racks) >= hybrid.elephant_bytes
    rate = np.where(circuits, hybrid.ocs_bytes_per_s, hybrid.eps_bytes_per_s)
    return _latency_s(job, hybrid, map_racks, reduce_racks, rate), circuits


def _latency_s(job: Any, hybrid: Hybrid, map_racks: Any, reduce_racks: Any, rate: Any) -> Any:
    """Equations 8 to 10, of numbers or of arrays of them."""
    maps_s = -(-job.maps // (map_racks * hybrid.slots)) * job.map_s
    reduces_s = -(-job.reduces // (reduce_racks * hybrid.slots)) * job.reduce_s
    flow_bytes = job.shuffle_bytes / (map_racks * reduce_racks)
    crossing_bytes = flow_bytes * (reduce_racks - 1)  # eq. 10
    if hybrid.shuffle_bound:
        # the least that the busiest rack sends or receives: eq. 10 has only part of the sending
        crossing_bytes = flow_bytes * np.maximum(map_racks, reduce_racks)
    return maps_s + crossing_bytes / rate + reduces_s  # eq. 9, 8


def recurring_guideline(
    job: ShuffleForecast, hybrid: Hybrid, factor: float
) -> DataGuideline | None:
    """The smallest R_map of the zone in which the shuffle uses circuits and latency is low.

    That zone (green in Fig. 4, not defined there) is taken to be all entries with circuits and a
    latency of at most ``factor`` times the best of them.  None if the job can't use circuits.
    """
    latency_s, circuits = latency_matrix(job, hybrid)
    latency_s = np.where(circuits, latency_s, np.inf)[: hybrid.racks_max]
    best_s = latency_s.min()
    if not np.isfinite(best_s):
        return None
    zone = latency_s <= factor * best_s
    row = int(_exact(zone, latency_s, job, hybrid, factor).any(axis=1).argmax())
    return DataGuideline(row + 1, tuple((np.flatnonzero(zone[row]) + 1).tolist()))


def _exact(
    zone: Bools, latency_s: Floats, job: ShuffleForecast, hybrid: Hybrid, factor: float
) -> Bools:
    """The zone, with entries at its edge compared by fractions: sums of floats break ties."""
    best_s = latency_s.min()
    edge = np.argwhere(np.abs(latency_s - factor * best_s) <= _ROUNDING * factor * best_s)
    if len(edge):
        names = ("map_s", "reduce_s", "shuffle_bytes")
        fractions: dict[str, Any] = {name: Fraction(getattr(job, name)) for name in names}
        exact = replace(job, **fractions)
        rate = Fraction(hybrid.ocs_bytes_per_s)
        found = {
            (row, column): _latency_s(exact, hybrid, row + 1, column + 1, rate)
            for close in (edge, np.argwhere(latency_s <= (1 + _ROUNDING) * best_s))
            for row, column in close.tolist()
        }
        limit_s = Fraction(str(factor)) * min(found.values())
        for row, column in edge.tolist():
            zone[row, column] = found[row, column] <= limit_s
    return zone


# Input data: IV-D.3 ------------------------------------------------------------------------------
def replica_racks(
    racks: Sequence[RackId], count: int, replicas: int, dice: Random
) -> tuple[tuple[RackId, ...], ...]:
    """Random disjoint sets of ``count`` racks, one set for each replica.

    With too few racks there are fewer sets: only whole ones.
    """
    count = min(count, max(1, len(racks) // replicas))
    chosen = dice.sample(racks, min(len(racks), count * replicas))
    sets = [tuple(chosen[at : at + count]) for at in range(0, len(chosen), count)]
    return tuple(each for each in sets if len(each) == count)
