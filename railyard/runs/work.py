"""The request of ``railyard run``, and a single job's plan, checked before a cluster starts."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import ClusterFailed, PeerError, PeerLost, RailyardError, UsageError
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.wire import Refusal
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import Topology
from railyard.dfs.paths import join_path, parse_path
from railyard.jobs.inputs import check_given, expanded, read_inputs
from railyard.jobs.plan import Plan, Request, default_reduces
from railyard.jobs.samples.catalog import find
from railyard.jobs.workloads.mixes import (
    Defaults,
    Mix,
    StoredFiles,
    blocks_to_read,
    is_single,
    read_mix,
    user_files,
)
from railyard.jobs.workloads.model import Workload
from railyard.netemu.messages import (
    NO_CHANGES,
    CircuitChanges,
    GetCircuitChanges,
    GetNetworkStats,
    NetworkStats,
)
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from railyard.resourcemanager.schedulers import recipe_named
from railyard.runs.clusters import Session, connected, own_session
from railyard.runs.files import UpStore, copy_out, fetched_inputs
from railyard.runs.folder import NetworkRecord, save_emulation, save_logs
from railyard.runs.outputfile import NotWritten
from railyard.runs.requests import RunRequest
from railyard.runs.room import (
    require_memory,
    require_room,
    require_room_for_mix,
    require_room_to_measure,
)
from railyard.runs.summary import (
    MachineWatch,
    MixOutcome,
    Outcome,
    make_summary,
    print_mix,
    print_summary,
)
from railyard.runs.workloads import planned, survived
from railyard.runs.workplace import MixRun, Submitter, Workplace, send_forecasts
from railyard.terminal.progress import View


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A job's plan, and the local files that it needs."""

    name: str  #: of the workload
    plan: Plan
    #: path in the block store -> the local file that is to be copied there
    copies: dict[str, Path] = field(default_factory=dict)
    stored_bytes: int = 0  #: real bytes of input to generate or to copy; 0: it is there already
    tasks: int = 0  #: as many maps as its input has blocks, and its reduces


def prepare(
    request: RunRequest, topology: Topology, seed: int, store: StoredFiles | None
) -> Prepared:
    """The plan of a single job; ``store``: of the cluster that is up, None if none is.

    Raises ``UsageError`` for an invalid request, ``InputError`` for unreadable input.
    """
    [job] = request.words
    sample = find(job)
    folder = f"/runs/{sample.name}-{secrets.token_hex(3)}"
    texts = expanded(request.inputs, None if store is None else store.matching)
    given = read_inputs(texts, f"{folder}/input")
    sizes = given.sizes
    stored_bytes = sum(sizes) if request.inputs else topology.stored_size(request.input_bytes)
    blocks = blocks_to_read(given, stored_bytes, topology, store)
    reduces = request.reduces or default_reduces(topology, blocks)
    plan = sample.plan(
        Request(
            folder=folder,
            input=given.path,
            inputs=given.named,
            output=_output(request.output),
            stored_bytes=stored_bytes,
            parts=-(-stored_bytes // topology.stored_block_bytes),
            reduces=reduces,
            seed=seed,
            params=dict(request.params),
        )
    )
    check_given(job, given, plan, sizes)
    return Prepared(
        name=sample.name,
        plan=plan,
        copies=given.copies,
        stored_bytes=stored_bytes,
        tasks=blocks + reduces,
    )


def incoming_bytes(request: RunRequest, topology: Topology) -> int:
    """Real bytes that a single job's input adds to the block store: generated, or copied there.

    Raises as ``prepare`` does.
    """
    find(request.words[0])
    if request.inputs and request.size_bytes is not None:
        raise UsageError("--size: --input says what to read: need one of the two")
    if not request.inputs:
        return topology.stored_size(request.input_bytes)
    return sum(read_inputs(request.inputs, "/").sizes)


def _output(path: str | None) -> str:
    if path is None:
        return ""
    try:
        folder = join_path(parse_path(path))
    except PeerError as error:
        raise UsageError(f"--output {path}: {error}") from None
    if folder == "/":
        raise UsageError(f"--output {path}: exists already: need the path of a new folder")
    return folder


# Keeps a record of a cluster's network while something runs there.


class NetworkWatch:
    """Takes samples of the network from now on, as long as the session is served."""

    def __init__(self, session: Session) -> None:
        self.record = NetworkRecord(session.config)
        self._link = session.link("network")
        asked_s = now_s()
        status = session.link("resourcemanager").ask(GetClusterStatus(), ClusterStatus)
        #: the ResourceManager's clock, which the events' times are of, minus ours
        self._offset_s = status.now_s - (asked_s + now_s()) / 2
        asked_s = now_s()
        before = self._link.ask(GetCircuitChanges(after=NO_CHANGES), CircuitChanges)
        #: the network's clock minus ours
        self._network_offset_s = before.now_s - (asked_s + now_s()) / 2
        self._changes_seen = before.seen
        self._is_asking = False  #: for changes of circuits
        self._look()
        session.reactor.call_every(self.record.log.period_s, self._look)

    def finish(self) -> None:
        """Take a last sample.  Raises ``PeerLost`` if the network does not come back."""
        while self.record.has_circuits:
            new = self._link.ask(GetCircuitChanges(after=self._changes_seen), CircuitChanges)
            self._take_changes(new)
            if not new.more:
                break
        self._take_links(self._link.ask(GetNetworkStats(), NetworkStats))

    def _look(self) -> None:
        self._link.request(GetNetworkStats(), NetworkStats, self._on_links)
        if self.record.has_circuits and not self._is_asking:
            self._ask_for_changes()

    def _on_links(self, answer: NetworkStats | Refusal | PeerLost, _: object) -> None:
        if isinstance(answer, NetworkStats) and self.record.wants(
            self._now_s() + self.record.log.period_s / 2
        ):
            self._take_links(answer)

    def _take_links(self, stats: NetworkStats) -> None:
        carried = stats.cross_rack_links | stats.ports
        self.record.take_links(self._now_s(), carried, stats.capacities)

    def _ask_for_changes(self) -> None:
        self._is_asking = True
        wanted = GetCircuitChanges(after=self._changes_seen)
        self._link.request(wanted, CircuitChanges, self._on_changes)

    def _on_changes(self, answer: CircuitChanges | Refusal | PeerLost, _: object) -> None:
        self._is_asking = False
        if isinstance(answer, CircuitChanges):
            self._take_changes(answer)
            if answer.more:
                self._ask_for_changes()

    def _take_changes(self, new: CircuitChanges) -> None:
        known = self._changes_seen - (new.seen - len(new.changes))  # from another answer
        self._changes_seen = new.seen
        offset_s = self._offset_s - self._network_offset_s
        self.record.take_circuits(new.changes[max(known, 0) :], offset_s)

    def _now_s(self) -> float:
        return now_s() + self._offset_s


# Runs one job or several on a cluster, and writes their results.


class Work(Protocol):
    """One job or several, ready to be run."""

    name: str  #: of the workload

    @property
    def outputs(self) -> tuple[str, ...]:
        """The folders of the block store that the requested jobs write."""

    def carry_out(self, session: Session, view: View) -> Outcome | MixOutcome:
        """Store the input, run, check; the outcome says which jobs failed."""

    def show(self, summary: dict[str, Any], topology: Topology) -> None:
        """Print the results; call it after ``carry_out``."""


class SingleJob:
    """One job; its input and output may be files of the user's."""

    def __init__(self, prepared: Prepared, submitter: Submitter, fetch_to: Path | None) -> None:
        self.name = prepared.name
        self._prepared = prepared
        self._submitter = submitter
        self._fetch_to = fetch_to

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(step.output for step in self._prepared.plan.measured)

    def carry_out(self, session: Session, view: View) -> Outcome:
        place = Workplace(session, view, self._prepared.copies)
        place.check(self._prepared.plan)
        if self._prepared.stored_bytes:
            name = self._prepared.plan.measured[0].name
            place.announce(self._prepared.plan, self._prepared.stored_bytes, name)
        place.bring_input(self._prepared.plan, self._prepared.copies)
        self._outcome = place.carry_out(self._prepared.plan, self._submitter)
        if self._fetch_to is not None and self._outcome.failure is None:
            copy_out(place.store, self._outcome.output, self._fetch_to)
        return self._outcome

    def show(self, summary: dict[str, Any], topology: Topology) -> None:
        if self._outcome.failure is None:
            print_summary(summary, self._outcome, topology)


class SeveralJobs:
    """A mix of jobs."""

    def __init__(
        self, mix: Mix, topology: Topology, seed: int, store: StoredFiles | None = None
    ) -> None:
        self.name = mix.name
        self._mix = mix
        self._topology = topology
        self._seed = seed
        folder = f"/runs/mix-{secrets.token_hex(3)}"
        self._jobs = planned(mix, topology, seed, folder, store)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(step.output for one in self._jobs for step in one.plan.measured)

    @cached_property
    def workload(self) -> Workload:
        """The same jobs by their sizes, which are measured when this is first asked for."""
        from railyard.jobs.workloads.measurement import measured_workload  # the jobs, and numpy

        with fetched_inputs() as localized:
            mix = localized(self._mix)
            require_room_to_measure(mix, self._topology)
            return measured_workload(mix, self._topology, self._seed)

    def carry_out(self, session: Session, view: View) -> MixOutcome:
        forecasts = send_forecasts(session, view, lambda: self.workload)
        self._outcome = MixRun(session, view, self._jobs, forecasts).carry_out()
        return self._outcome

    def show(self, summary: dict[str, Any], topology: Topology) -> None:
        print_mix(summary, self._outcome, topology)


@dataclass(frozen=True)
class Ran:
    """The results of work on a cluster."""

    outcome: Outcome | MixOutcome
    summary: dict[str, Any]
    unwritten: NotWritten | None = None  #: why the folder for results is incomplete


def run_on(session: Session, work: Work, view: View, results: Path | None) -> Ran:
    """Carry out work; ``results`` is a new folder for all files of the run."""
    session.on_death = lambda death: view.say(_of_a_rack(death))
    watch = None if results is None else NetworkWatch(session)
    machine = MachineWatch(session)
    try:
        outcome = work.carry_out(session, view)
        summary = make_summary(session, work.name, outcome) | {"machine": machine.figures()}
        if watch is not None:
            watch.finish()
    except (ClusterFailed, PeerLost):
        if results is not None:
            save_logs(session.folder, results)
        raise
    unwritten = None
    if results is not None and watch is not None:
        try:
            save_emulation(session.folder, results, summary, watch.record)
        except NotWritten as error:  # the results are shown first
            unwritten = error
    return Ran(outcome, summary, unwritten)


@contextmanager
def session_for(up: RunFolder | None, config: ClusterConfig, view: View) -> Iterator[Session]:
    """A session with the cluster that is up, or else with one of its own."""
    if up is not None:
        with connected(up, config) as session:
            yield session
        return
    racks = config.topology.racks
    view.say(f"starting {config.topology.name}: {racks.count} racks, {config.topology.slots} slots")
    with own_session(config) as session:
        yield session


def _of_a_rack(death: dict[str, Any]) -> str:
    who = f"the {death['role']} {death['name']}"
    return f"{who} died ({death['how']}); {death['next']}"


# Runs on a cluster of real processes: what is to be done, done, and whether it went well.


class NotVerified(RailyardError):
    """A job's output is not what it should be."""


def work_for(request: RunRequest, config: ClusterConfig, up: RunFolder | None) -> Work:
    """What is to be done on a cluster; ``up`` is the one that runs, None if one is to be started.

    Raises ``UsageError`` for a request that makes no sense, before anything is done.
    """
    seed = config.seed if request.seed is None else request.seed
    make = _single if is_single(request.words) else _several
    return make(request, config, seed, up)


def require_well(ran: Ran, name: str) -> None:
    """Raise what went wrong, if anything did: files not written, a job failed, wrong output."""
    if ran.unwritten is not None:
        raise ran.unwritten
    if ran.outcome.failure is not None:
        raise ran.outcome.failure
    if ran.outcome.verified is False:
        raise NotVerified(f"the output of {name} is not right")


def _single(request: RunRequest, config: ClusterConfig, seed: int, up: RunFolder | None) -> Work:
    topology = config.topology
    require_room(up, topology, request.words[0], *[incoming_bytes(request, topology)] * 2)
    store = None if up is None else UpStore(up, config)
    plan = partial(prepare, request, topology, seed, store)
    prepared = survived(user_files(request.words), plan)
    reserves = recipe_named(config.scheduler).reserves
    require_memory(topology, prepared.name, prepared.tasks, up, reserves=reserves)
    return SingleJob(prepared, Submitter(request.user, request.queue), request.fetch_to)


def _several(request: RunRequest, config: ClusterConfig, seed: int, up: RunFolder | None) -> Work:
    single = {"--output": request.output, "--get": request.fetch_to}
    for flag, value in single.items():
        if value:
            raise UsageError(f"{flag}: is for a single job: need one JOB, and nothing else")
    defaults = Defaults(
        size_bytes=request.input_bytes,
        reduces=request.reduces,
        user=request.user,
        queue=request.queue,
        params=request.params,
        inputs=request.inputs,
    )
    mix = read_mix(request.words, defaults, seed)
    reserves = recipe_named(config.scheduler).reserves
    require_room_for_mix(up, mix, config.topology, reserves=reserves)
    store = None if up is None else UpStore(up, config)
    return SeveralJobs(mix, config.topology, seed, store)
