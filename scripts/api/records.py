"""The figures of a run as typed objects: ``summary.json`` with names and types (docs/summary.md).

Bytes are the model's, times are seconds of the model's clock.  None is what is not known, such as
the time of a shuffle that there was none of.  Keys that are not named here are in ``Run.summary``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from railyard.scripts.results.trust import is_trusted


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Mean, percentiles and maximum of a quantity; None if there are no values."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that were read and fetched, by distance, and those between racks by way."""

    local: int  #: stayed on their node
    rack: int  #: within a rack
    cross_rack: int  #: between racks
    eps: int = 0  #: of ``cross_rack``, by packets
    ocs: int = 0  #: by optical circuits
    wan: int = 0  #: between sites


class Locality(msgspec.Struct, frozen=True, kw_only=True):
    """Map attempts by where their input was."""

    node: int
    rack: int
    remote: int


class Attempts(msgspec.Struct, frozen=True, kw_only=True):
    """How many attempts there were."""

    launched: int
    succeeded: int
    failed: int
    killed: int
    copies: int  #: second attempts of running tasks
    copies_chosen: int  #: of these, those whose output counts


class Fidelity(msgspec.Struct, frozen=True, kw_only=True):
    """How well the machine kept up with an emulated run."""

    grant_lag_ms_p99: float  #: 99 % of the network's grants came at most so late
    cpu_saturated: float  #: share of the time with open flows in which all CPUs were busy
    network_away_s: float = 0.0  #: for how long the network was being restarted
    silent_daemons: int = 0  #: how often a NodeManager was silent for long, and was waited for
    #: `mean` and `max` per attempt that succeeded: from the arrival of its order to its first word
    launch_s: dict[str, float] = {}
    #: `mean` and `max` per attempt that succeeded: its waits for permits to compute after that
    permit_s: dict[str, float] = {}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine did during an emulated run, with all its programs."""

    cpus: int
    load_max: float  #: largest load average over a minute
    memory_bytes_max: int  #: real bytes by which free memory was less than before, at most


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process of an emulated run."""

    role: str  #: such as `NodeManager` or `Attempt`
    name: str
    pid: int


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon that died during an emulated run."""

    role: str
    name: str
    pid: int
    how: str  #: such as `signal 9`
    next: str  #: what followed


class CoarseRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a simulation was made coarser, as it would have had too many tasks."""

    output_block_bytes: int  #: of written files
    progress_s: float  #: from one report of an attempt's progress to the next
    tasks_in_one: int  #: so many blocks, at most, were read by one task
    off: dict[str, float]  #: shares by which mean times were off at most, in 19 of 20 workloads


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a run."""

    id: str  #: "j3"
    name: str  #: "terasort-2"
    submitted_s: float
    finished_s: float | None
    jct_s: float | None  #: job completion time: from submission to end
    cct_s: float | None  #: coflow completion time: of its longest shuffle
    input_bytes: int
    shuffle_bytes: int
    cross_rack_shuffle_bytes: int
    shuffle_skew: float | None  #: of its shuffle over the racks' links; 1: even
    output_bytes: int
    maps: int
    reduces: int
    slot_s: float  #: for which its attempts held slots
    computed_s: float  #: for which those that succeeded computed
    reduce_s: float | None  #: mean of a reduce
    ok: bool | None  #: None: it has not ended
    reason: str = ""  #: why it failed, if it did
    #: waits of its attempts for the machine, added up; of an emulated run
    machine_s: float | None = None
    counters: dict[str, int] = {}  #: what its tasks counted, each task once
    steps: tuple[str, ...] = ()  #: ids of its steps, if it ran in several


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one or several jobs under a scheduler, on either clock."""

    scheduler: str
    flow_scheduler: str
    topology: str
    workload: str
    clock: str  #: "wall": real processes; "virtual": simulated
    seed: int
    scale: int  #: bytes of the model per real byte
    makespan_s: float  #: from the first job's submission to the last one's end
    jct_s: Spread  #: of jobs that succeeded
    cct_s: Spread  #: of coflows
    shuffle_skew: Spread
    bytes: Moved
    locality: Locality
    tasks: Attempts
    link_skew: float | None = None  #: bytes of the busiest link between racks over the least busy
    slot_utilization: float  #: share of slots x time that attempts held
    compute_utilization: float | None = None  #: share of slots x time in which they computed
    network_utilization: float | None = None  #: share of the capacity between racks
    #: the policies' own figures: {policy: {name: value}}
    figures: dict[str, dict[str, float]] = {}
    figures_error: str | None = None  #: which policy broke when it was asked for its figures
    #: of each layer of a tree of switches, the share of its capacity x makespan that was used
    layer_utilization: dict[str, float] = {}
    scheduling_s: dict[str, float] = {}  #: CPU time of decisions: `total` and `max`
    cpu_s: float | None = None  #: CPU time of a simulation, where it was one of several
    coarse: CoarseRun | None = None  #: None: exact, or emulated
    fidelity: Fidelity | None = None  #: None: simulated
    machine: Machine | None = None  #: likewise
    processes: tuple[Process, ...] = ()  #: of an emulated run
    deaths: tuple[Death, ...] = ()  #: likewise
    verified: bool | None = None  #: whether the output is right; None: it could not be checked
    jobs: tuple[JobResult, ...]
    output: str | None = None  #: folder of the block store, of a single job on a ``Cluster``
    folder: Path | None = None  #: with all files of the run; None: none were asked for
    summary: dict[str, Any]  #: everything, as in ``summary.json``

    @property
    def ok(self) -> bool:
        """Whether all jobs succeeded, and no output is wrong."""
        return self.verified is not False and all(job.ok for job in self.jobs)

    @property
    def trusted(self) -> bool:
        """Whether the machine kept up, so that times can be trusted; always if simulated."""
        return is_trusted(self.summary)
