"""Jobs on a cluster of real processes: from the request to the checked output and its files.

Inputs that are equal are made once.  Everything is prepared before the first job is submitted, and
nothing is checked before the last one has ended, so that the jobs have the cluster to themselves.
Forecasts of the jobs are sent before all of that, so that a scheduler can plan their data; they are
those that the simulator makes for the same jobs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import (
    ClusterFailed,
    PeerError,
    PeerLost,
    RailyardError,
    UsageError,
    printable,
)
from railyard.cluster.ids import rack_id
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.wire import Done, Refusal
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_count
from railyard.dfs.client import DfsClient
from railyard.dfs.paths import join_path, parse_path
from railyard.jobs.inputs import LocalFile, check_given, expanded, read_inputs
from railyard.jobs.package import load_job
from railyard.jobs.plan import Plan, Request, Step, default_reduces
from railyard.jobs.samples.catalog import find
from railyard.jobs.taskio import FileReader
from railyard.jobs.workloads.mixes import (
    Defaults,
    Mix,
    Planned,
    StoredFiles,
    blocks_to_read,
    is_single,
    read_mix,
    user_files,
)
from railyard.jobs.workloads.model import Workload, rack_of_each
from railyard.netemu.messages import (
    NO_CHANGES,
    CircuitChanges,
    GetCircuitChanges,
    GetNetworkStats,
    NetworkStats,
)
from railyard.resourcemanager.interface.forecast import Forecast, predicted_jobs
from railyard.resourcemanager.process.messages import (
    JobEnded,
    NoteInput,
    SubmitForecasts,
    SubmitJob,
)
from railyard.resourcemanager.schedulers import recipe_named
from railyard.runs.files import Racks, UpStore, copy_in, copy_out, fetched_inputs, planned_racks
from railyard.runs.folder import NetworkRecord, save_emulation, save_logs
from railyard.runs.outputfile import NotWritten
from railyard.runs.requests import RunRequest
from railyard.runs.room import (
    require_memory,
    require_room,
    require_room_for_mix,
    require_room_to_measure,
)
from railyard.runs.session import Session, connected, own_session
from railyard.runs.submission import Due, run_all
from railyard.runs.summary import (
    JobFailed,
    MachineWatch,
    MixOutcome,
    Outcome,
    Result,
    make_summary,
    print_mix,
    print_summary,
)
from railyard.runs.workloads import planned, survived
from railyard.terminal.progress import View


class NotVerified(RailyardError):
    """A job's output is not what it should be."""


class Workplace:
    """A cluster on which plans run; it is their ``jobs.plan.Files``."""

    def __init__(self, session: Session, view: View, locals_: Mapping[str, Path]) -> None:
        self.store = DfsClient(session.transport, session.config.topology)
        self._session = session
        self._view = view
        self._racks: dict[str, Racks] = {}  #: path -> racks of announced inputs
        self._brought: set[str] = set()  #: paths of copies that are in the store
        self._locals = locals_  #: path in the block store -> the local file that it is a copy of

    def announce(
        self, plan: Plan, stored_bytes: int, job: str, forecast: Forecast | None = None
    ) -> None:
        """Ask the data policy where a plan's input should go, once for each path.

        ``stored_bytes``: size of what is copied; steps that generate input say how much they do.
        """
        sizes = {step.output: step.generated_bytes for step in plan.before if step.generated_bytes}
        if not sizes and plan.measured[0].input:
            sizes = {plan.measured[0].input: stored_bytes}
        for path, size in sizes.items():
            if path not in self._racks:
                self._racks[path] = planned_racks(self._session, path, size, job, forecast)

    def note(self, path: str, jobs: Iterable[str] = ()) -> None:
        """Report to the scheduler where written input is, before these jobs read it."""
        noted = NoteInput(path=path, jobs=tuple(jobs))
        self._session.link("resourcemanager").ask(noted, Done)

    def bring_input(self, plan: Plan, copies: Mapping[str, Path]) -> None:
        """Copy local input files into the block store, unless they are there already."""
        racks = self._racks.get(plan.measured[0].input, ())
        for path, local in copies.items():
            if path not in self._brought:
                self._brought.add(path)
                self._view.say(f"storing {printable(str(local))} as {path}")
                copy_in(self.store, str(local), path, racks=racks)

    def submission(
        self, step: Step, user: str, queue: str, name: str = "", forecast: Forecast | None = None
    ) -> SubmitJob:
        """The message that submits a step; what the step reads must exist."""
        package = step.pack(self)
        stages = load_job(package).stage_specs(step.reduces)
        racks = rack_of_each(step.shares, stages[-1].tasks) if step.shares else ()
        names = tuple(name for name, _ in step.inputs)
        return SubmitJob(
            name=name or step.name,
            package=package,
            stages=stages,
            input_paths=step.sources,
            input_names=names if any(names) else (),
            output_path=step.output,
            output_racks=self._racks.get(step.output, ()),
            first_racks=tuple(map(rack_id, racks)),
            user=user,
            queue=queue,
            forecast=forecast,
        )

    # jobs.plan.Files ------------------------------------------------------------------------------
    def list(self, folder: str) -> list[str]:
        """Paths of the data files in a folder; of the file itself if it is one."""
        files = [entry.path for entry in self.store.list(folder) if not entry.folder]
        return [path for path in files if not path.rsplit("/", 1)[-1].startswith("_")]

    def open(self, path: str) -> FileReader:
        """A file; the local one if it was copied from there: checks do not rest on the copy."""
        local = self._locals.get(path)
        return LocalFile(local) if local is not None else self.store.open(path)


class SingleJob:
    """One job, checked before a cluster starts; its input and output may be files of the user's."""

    def __init__(
        self, request: RunRequest, topology: Topology, seed: int, store: StoredFiles | None
    ) -> None:
        """``store``: of the cluster that is up, None if none is.

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
        self.name = sample.name  #: of the workload
        self.tasks = blocks + reduces  #: as many maps as its input has blocks, and its reduces
        self.plan = sample.plan(
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
        check_given(job, given, self.plan, sizes)
        self._request = request
        self._copies = given.copies  #: path in the block store -> the local file to be copied there
        self._stored_bytes = stored_bytes  #: real bytes of input to make; 0: it is there already

    @property
    def outputs(self) -> tuple[str, ...]:
        """The folders of the block store that the requested jobs write."""
        return tuple(step.output for step in self.plan.measured)

    def carry_out(self, session: Session, view: View) -> Outcome:
        """Store the input, run, check; the outcome says whether it failed."""
        place = Workplace(session, view, self._copies)
        self._check(place)
        if self._stored_bytes:
            place.announce(self.plan, self._stored_bytes, self.plan.measured[0].name)
        place.bring_input(self.plan, self._copies)
        self._outcome = self._run(place, session, view)
        if self._request.fetch_to is not None and self._outcome.failure is None:
            copy_out(place.store, self._outcome.output, self._request.fetch_to)
        return self._outcome

    def _check(self, place: Workplace) -> None:
        """Raise ``UsageError`` early for a plan that would fail in the end."""
        for output in self.outputs:
            if place.store.exists(output):
                right = "need a new path, or remove it first"
                raise UsageError(f"output {output}: exists already: {right}")
        source = self.plan.steps[0].input
        if source and not self._copies and self.plan.check_sizes is not None:
            self.plan.check_sizes([place.open(path).stored_bytes for path in place.list(source)])

    def _run(self, place: Workplace, session: Session, view: View) -> Outcome:
        """Run all steps and check the output; stop at a step that fails."""
        plan, ended = self.plan, dict[str, JobEnded]()
        for step in plan.steps:
            job = place.submission(step, self._request.user, self._request.queue)
            [[end]] = run_all(session, [Due(job)], view)
            ended[step.name] = end
            if not end.ok:
                begun = tuple([one for one in plan.measured if one.name in ended])
                of = begun if step.measured else (step,)
                return Outcome(jobs=ended, measured=of, failure=JobFailed(job.name, end))
        verdict = plan.verify(place) if plan.verify is not None else None
        return Outcome(jobs=ended, measured=plan.measured, verdict=verdict)

    def show(self, summary: dict[str, Any], topology: Topology) -> None:
        """Print the results; call it after ``carry_out``."""
        if self._outcome.failure is None:
            print_summary(summary, self._outcome, topology)


class SeveralJobs:
    """A mix of jobs, each submitted at its time."""

    def __init__(
        self, mix: Mix, topology: Topology, seed: int, store: StoredFiles | None = None
    ) -> None:
        self.name = mix.name  #: of the workload
        self._mix = mix
        self._topology = topology
        self._seed = seed
        folder = f"/runs/mix-{secrets.token_hex(3)}"
        self._jobs = planned(mix, topology, seed, folder, store)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The folders of the block store that the requested jobs write."""
        return tuple(step.output for one in self._jobs for step in one.plan.measured)

    @cached_property
    def workload(self) -> Workload:
        """The same jobs by their sizes, which are measured when this is first used: seconds."""
        from railyard.jobs.workloads.measurement import measured_workload  # the jobs, and numpy

        with fetched_inputs() as localized:
            mix = localized(self._mix)
            require_room_to_measure(mix, self._topology)
            return measured_workload(mix, self._topology, self._seed)

    def carry_out(self, session: Session, view: View) -> MixOutcome:
        """Prepare, run, check; ``JobFailed`` if a job that prepares or checks fails."""
        self._session, self._view = session, view
        self._helpers: list[JobEnded] = []
        self._forecasts = self._send_forecasts()
        copies = {path: local for one in self._jobs for path, local in one.given.copies.items()}
        self._place = Workplace(session, view, copies)
        self._prepare()
        self._outcome = self._check(self._run())
        return self._outcome

    def _send_forecasts(self) -> dict[str, Forecast]:
        """Send the scheduler the forecasts of the jobs to come; returns {job's name: forecast}.

        A scheduler that does not use forecasts is sent none, and nothing is measured for it.
        """
        scheduler = self._session.config.scheduler
        if not recipe_named(scheduler).uses_forecasts:
            return {}
        jobs = self.workload.jobs
        expected = predicted_jobs(jobs, self._session.status().now_s)
        if expected:
            link = self._session.link("resourcemanager")
            link.ask(SubmitForecasts(jobs=expected), Done)
        said = f"{len(expected)} of {format_count(len(jobs), 'job')}, with sizes measured ahead"
        self._view.say(f"forecasts for {scheduler}: {said}")
        return {job.job: job.forecast for job in expected}

    def _prepare(self) -> None:
        for one in self._jobs:
            # Skewed input has its racks; without bytes it is there already.
            if one.job.skew is None and one.stored_bytes:
                forecast = self._forecasts.get(one.job.name)
                self._place.announce(one.plan, one.stored_bytes, one.job.name, forecast)
        for one in self._jobs:
            self._place.bring_input(one.plan, one.given.copies)
        self._help("preparing", lambda one: one.plan.before, self._jobs)
        readers: dict[str, list[str]] = {}
        for one in self._jobs:
            for name, step in one.steps():
                for path in dict.fromkeys(step.sources):
                    if path in one.plan.sources:
                        readers.setdefault(path, []).append(name)
        for path, names in readers.items():
            self._place.note(path, names)

    def _run(self) -> list[tuple[JobEnded, ...]]:
        due = []
        for one in self._jobs:
            first, *others = [partial(self._submission, one, *step) for step in one.steps()]
            due.append(Due(first(), one.job.submit_s, tuple(others)))
        return run_all(self._session, due, self._view, "running")

    def _submission(self, one: Planned, name: str, step: Step) -> SubmitJob:
        """The message that submits a step of a job, under this name."""
        forecast = self._forecasts.get(name)
        return self._place.submission(step, one.job.user, one.job.queue, name, forecast)

    def _check(self, ends: Sequence[tuple[JobEnded, ...]]) -> MixOutcome:
        well = [job for job, steps in zip(self._jobs, ends, strict=True) if steps[-1].ok]
        self._help("checking", lambda one: one.plan.after, well)
        results = []
        for one, steps in zip(self._jobs, ends, strict=True):
            verify = one.plan.verify if steps[-1].ok else None
            verdict = None if verify is None else verify(self._place)
            results.append(Result(name=one.job.name, steps=steps, verdict=verdict))
        return MixOutcome(results=tuple(results), helpers=tuple(self._helpers))

    def _help(
        self, title: str, steps_of: Callable[[Planned], tuple[Step, ...]], jobs: Sequence[Planned]
    ) -> None:
        """Run the steps before or after jobs: all first steps at once, then all second ones ..."""
        for steps in zip_longest(*map(steps_of, jobs)):
            due: dict[str, Due] = {}  #: by output; equal ones are done once
            for step, one in zip(steps, jobs, strict=True):
                if step is not None and step.output not in due:
                    due[step.output] = Due(
                        self._place.submission(step, one.job.user, one.job.queue)
                    )
            every = run_all(self._session, list(due.values()), self._view, title)
            for wanted, [end] in zip(due.values(), every, strict=True):
                self._helpers.append(end)
                if not end.ok:
                    raise JobFailed(wanted.job.name, end)

    def show(self, summary: dict[str, Any], topology: Topology) -> None:
        """Print the results; call it after ``carry_out``."""
        print_mix(summary, self._outcome, topology)


Work = SingleJob | SeveralJobs


def work_for(request: RunRequest, config: ClusterConfig, up: RunFolder | None) -> Work:
    """What is to be done on a cluster; ``up`` is the one that runs, None if one is to be started.

    Raises ``UsageError`` for a request that makes no sense, before anything is done.
    """
    topology, reserves = config.topology, recipe_named(config.scheduler).reserves
    seed = config.seed if request.seed is None else request.seed
    store = None if up is None else UpStore(up, config)
    if is_single(request.words):
        require_room(up, topology, request.words[0], *[_incoming_bytes(request, topology)] * 2)
        plan = partial(SingleJob, request, topology, seed, store)
        single = survived(user_files(request.words), plan)
        require_memory(topology, single.name, single.tasks, up, reserves=reserves)
        return single
    for name, value in {"--output": request.output, "--get": request.fetch_to}.items():
        if value:
            raise UsageError(f"{name}: is for a single job: need one JOB, and nothing else")
    defaults = Defaults(
        size_bytes=request.input_bytes,
        reduces=request.reduces,
        user=request.user,
        queue=request.queue,
        params=request.params,
        inputs=request.inputs,
    )
    mix = read_mix(request.words, defaults, seed)
    require_room_for_mix(up, mix, topology, reserves=reserves)
    return SeveralJobs(mix, topology, seed, store)


def _incoming_bytes(request: RunRequest, topology: Topology) -> int:
    """Real bytes that a single job's input adds to the block store: generated, or copied there."""
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


def require_well(ran: Ran, name: str) -> None:
    """Raise what went wrong, if anything did: files not written, a job failed, wrong output."""
    if ran.unwritten is not None:
        raise ran.unwritten
    if ran.outcome.failure is not None:
        raise ran.outcome.failure
    if ran.outcome.verified is False:
        raise NotVerified(f"the output of {name} is not right")


class NetworkWatch:
    """Takes samples of the network from now on, as long as the session is served."""

    def __init__(self, session: Session) -> None:
        self.record = NetworkRecord(session.config)
        self._link = session.link("network")
        asked_s = now_s()
        status = session.status()
        #: the ResourceManager's clock, which the events' times are of, minus ours
        self._offset_s = status.now_s - (asked_s + now_s()) / 2
        asked_s = now_s()
        before = self._link.ask(GetCircuitChanges(after=NO_CHANGES), CircuitChanges)
        #: the network's clock minus ours
        self._network_offset_s = before.now_s - (asked_s + now_s()) / 2
        self._changes_seen = before.seen
        self._is_asking = False  #: for changes of circuits
        self._sample()
        session.reactor.call_every(self.record.log.period_s, self._sample)

    def finish(self) -> None:
        """Take a last sample.  Raises ``PeerLost`` if the network does not come back."""
        while self.record.has_circuits:
            new = self._link.ask(GetCircuitChanges(after=self._changes_seen), CircuitChanges)
            self._take_changes(new)
            if not new.more:
                break
        self._take_links(self._link.ask(GetNetworkStats(), NetworkStats))

    def _sample(self) -> None:
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
