"""Latency response functions L_j(r): the seconds that a job takes on r racks.

Source: Corral, section 4.3 (after Bazaar, SOCC 2011) and 4.5.  They are proxies for real latencies,
not forecasts.  Each function takes numbers of racks as an array and returns seconds for each.

Left open there, chosen here:
* several tasks on a machine: waves of r k slots tasks; the shuffle's bytes of a machine, and so its
  time, stay as they are;
* bandwidth: B/V is what other traffic leaves of a rack's link to the core, for each machine;
* no oversubscription (V <= 1), where B - B/V is nothing: all bytes of a machine share its NIC;
* the waves' factor of the shuffle is left out unless ``in_waves``: D^core has all bytes of a
  machine, whatever the number of waves, so the printed formula counts them once a wave.  Counted
  once, W2's two large jobs get 3 and 4 of the 7 racks; as printed, all; 6.2.1 has 3 each;
* racks that differ, such as sites behind wide-area links: each counts with the mean of them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import require
from railyard.cluster.topology import Topology
from railyard.resourcemanager.schedulers.corral.profiles import JobProfile, StageProfile

Array = npt.NDArray[np.float64]
Number = TypeVar("Number", float, Array)


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of the model."""

    #: α, in units of 1 / (a rack's bandwidth to the core); 0 = data may be out of balance
    imbalance: float = 1.0
    #: count all of a shuffle once for each wave of reduces, as 4.3 prints it
    shuffle_in_waves: bool = False
    slots: int = 0  #: tasks that a machine runs at once; 0 = as many as it has slots

    def __post_init__(self) -> None:
        require(self.imbalance >= 0, "imbalance", self.imbalance, "a number >= 0")
        require(self.slots >= 0, "slots", self.slots, "a whole number >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class RackCluster:
    """A cluster of racks that are all alike, as the response functions see it."""

    racks: int  #: R
    machines: int  #: k, in a rack
    slots: float = 1  #: tasks that a machine runs at once, in the mean
    nic_bytes_per_s: float  #: B
    core_bytes_per_s: float  #: B/V: a machine's part of its rack's link to the core

    @classmethod
    def of(cls, topology: Topology, slots: int = 0) -> RackCluster:
        """A topology's racks; those that differ count with their mean."""
        racks = topology.rack_list()
        nodes = [node for rack in racks for node in rack.nodes]
        narrow = [min(rack.uplink_bytes_per_s, rack.downlink_bytes_per_s) for rack in racks]
        parts = [each / len(rack.nodes) for each, rack in zip(narrow, racks, strict=True)]
        return cls(
            racks=len(racks),
            machines=max(1, round(len(nodes) / len(racks))),
            slots=slots or _mean([node.slots for node in nodes]),
            nic_bytes_per_s=_mean([node.nic_bytes_per_s for node in nodes]),
            core_bytes_per_s=_mean(parts),
        )

    @property
    def rack_core_bytes_per_s(self) -> float:
        """Bandwidth between a rack and the core."""
        return self.core_bytes_per_s * self.machines

    def all_widths(self) -> Array:
        """All numbers of racks, 1 to R."""
        return np.arange(1.0, self.racks + 1)


def _mean(values: Sequence[float]) -> float:
    """The mean; of equal values that value itself, without rounding."""
    return values[0] if len(set(values)) == 1 else fmean(values)


def waves(tasks: int, r: Array, cluster: RackCluster) -> Array:
    """w(r) = ceil(N / (r k)), times the slots of a machine: rounds in which N tasks run."""
    rounds: Array = np.ceil(tasks / (r * (cluster.machines * cluster.slots)))
    return rounds


def map_s(stage: StageProfile, r: Array, cluster: RackCluster) -> Array:
    """l^map(r) = w^map(r) (D^I / N^M) / B_M."""
    if stage.maps == 0:
        return np.zeros_like(r)
    task_s = stage.input_bytes / stage.maps / stage.map_rate_bytes_per_s + stage.map_s
    return waves(stage.maps, r, cluster) * task_s


def reduce_s(stage: StageProfile, r: Array, cluster: RackCluster) -> Array:
    """l^reduce(r) = w^reduce(r) (D^O / N^R) / B_R."""
    if stage.reduces == 0:
        return np.zeros_like(r)
    task_s = stage.output_bytes / stage.reduces / stage.reduce_rate_bytes_per_s + stage.reduce_s
    return waves(stage.reduces, r, cluster) * task_s


def core_s(stage: StageProfile, r: Array, cluster: RackCluster) -> Array:
    """l^core(r) = D^core(r) / (B/V), where D^core = D^S/(r k) (r-1)/r of each machine."""
    return _crossing_bytes(stage, r, cluster) / cluster.core_bytes_per_s


def local_s(stage: StageProfile, r: Array, cluster: RackCluster) -> Array:
    """l^local(r) = D^local(r) / (B - B/V) (k-1)/k, where D^local = D^S/(r k) 1/r."""
    spare = cluster.nic_bytes_per_s - cluster.core_bytes_per_s
    return _staying_bytes(stage, r, cluster) / spare


def shuffle_s(
    stage: StageProfile, r: Array, cluster: RackCluster, *, in_waves: bool = True
) -> Array:
    """l^shuffle(r) = w^reduce(r) max(l^core(r), l^local(r))."""
    if stage.reduces == 0:
        return np.zeros_like(r)
    if cluster.core_bytes_per_s < cluster.nic_bytes_per_s:
        once = np.maximum(core_s(stage, r, cluster), local_s(stage, r, cluster))
    else:
        sent = _crossing_bytes(stage, r, cluster) + _staying_bytes(stage, r, cluster)
        once = sent / cluster.nic_bytes_per_s
    return waves(stage.reduces, r, cluster) * once if in_waves else once


def stage_s(stage: StageProfile, r: Array, cluster: RackCluster, *, in_waves: bool = True) -> Array:
    """L_s(r) = l^map(r) + l^shuffle(r) + l^reduce(r)."""
    shuffled = shuffle_s(stage, r, cluster, in_waves=in_waves)
    return map_s(stage, r, cluster) + shuffled + reduce_s(stage, r, cluster)


def job_s(job: JobProfile, r: Array, cluster: RackCluster, *, in_waves: bool = True) -> Array:
    """L_j(r): the sum of L_s(r) over the critical path, which may be another for each r."""
    done: dict[str, Array] = {}  #: {stage: seconds of the longest path that ends with it}
    for stage in job.stages:
        begun = np.zeros_like(r)
        for read in stage.reads:
            begun = np.maximum(begun, done[read])
        done[stage.name] = begun + stage_s(stage, r, cluster, in_waves=in_waves)
    longest = np.zeros_like(r)
    for path in done.values():
        longest = np.maximum(longest, path)
    return longest


def imbalance_s(job: JobProfile, r: Number, cluster: RackCluster, imbalance: float = 1.0) -> Number:
    """α D^I / r: about the seconds that the upload of a rack's part of the input takes."""
    alpha = imbalance / cluster.rack_core_bytes_per_s
    return alpha * job.input_bytes / r


def _crossing_bytes(stage: StageProfile, r: Array, cluster: RackCluster) -> Array:
    """Bytes that each machine sends to other racks."""
    return stage.shuffle_bytes / (r * cluster.machines) * (r - 1) / r


def _staying_bytes(stage: StageProfile, r: Array, cluster: RackCluster) -> Array:
    """Bytes that each machine sends to others of its rack."""
    others = (cluster.machines - 1) / cluster.machines
    return stage.shuffle_bytes / (r * cluster.machines) / r * others
