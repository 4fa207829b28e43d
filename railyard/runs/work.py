"""Jobs on a cluster of real processes: from the request to the checked output and its files.

Inputs that are equal are made once.  Everything is prepared before the first job is submitted, and
nothing is checked before the last one has ended, so that the jobs have the cluster to themselves.
Forecasts of the jobs are sent before all of that, so that a scheduler can plan their data; they are
those that the simulator makes for the same jobs.
"""

from __future__ import annotations

import contextlib
import secrets
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import (
    ClusterFailed,
    PeerError,
    PeerLost,
    RailyardError,
    Refused,
    UsageError,
    printable,
)
from railyard.cluster.ids import JobId, rack_id
from railyard.cluster.messaging.lastinglink import LastingLink
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
from railyard.netemu.messages import NetworkView, WatchNetwork
from railyard.resourcemanager.interface.forecast import Forecast, predicted_jobs
from railyard.resourcemanager.process.messages import (
    JobAccepted,
    JobEnded,
    JobProgress,
    KillJob,
    NoteInput,
    SubmitForecasts,
    SubmitJob,
    WatchJob,
)
from railyard.resourcemanager.schedulers import recipe_named
from railyard.runs.clusters import Session, connected, own_session
from railyard.runs.files import Racks, UpStore, copy_in, copy_out, fetched_inputs, planned_racks
from railyard.runs.folder import NotWritten, save_emulation, save_logs
from railyard.runs.networkwatch import NetworkWatch
from railyard.runs.requests import RunRequest
from railyard.runs.room import (
    require_memory,
    require_room,
    require_room_for_mix,
    require_room_to_measure,
)
from railyard.runs.summary import (
    JobFailed,
    MachineWatch,
    Outcome,
    Result,
    make_summary,
    print_mix,
    print_summary,
)
from railyard.runs.workloads import planned, survived
from railyard.terminal.interrupts import Interrupted, deferred
from railyard.terminal.progress import BatchProgress, View


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
        outcome = self._run(place, session, view)
        if self._request.fetch_to is not None and outcome.failure is None:
            copy_out(place.store, self.outputs[-1], self._request.fetch_to)
        return outcome

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
        plan, self._ends = self.plan, dict[str, JobEnded]()
        for step in plan.steps:
            job = place.submission(step, self._request.user, self._request.queue)
            [[end]] = run_all(session, [Due(job)], view)
            self._ends[step.name] = end
            if not end.ok:
                break
        steps = tuple(self._ends[one.name] for one in plan.measured if one.name in self._ends)
        if not (end.ok or step.measured):
            steps = (end,)
        verdict = plan.verify(place) if end.ok and plan.verify is not None else None
        self._result = Result(name=job.name, steps=steps, verdict=verdict)
        helpers = tuple(one for one in self._ends.values() if one not in steps)
        return Outcome(results=(self._result,), helpers=helpers)

    def show(self, summary: dict[str, Any], topology: Topology) -> None:
        """Print the results; call it after ``carry_out``."""
        if self._result.ended.ok:
            print_summary(summary, self._result, self._ends, self.outputs[-1], topology)


class SeveralJobs:
    """A mix of jobs, each submitted at its time."""

    def __init__(
        self, mix: Mix, topology: Topology, seed: int, store: StoredFiles | None = None
    ) -> None:
        self.name = mix.name  #: of the workload
        self._mix = mix
        self._topology = topology
        self._seed = seed
        self._jobs = planned(mix, topology, seed, f"/runs/mix-{secrets.token_hex(3)}", store)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(step.output for one in self._jobs for step in one.plan.measured)

    @cached_property
    def workload(self) -> Workload:
        """The same jobs by their sizes, which are measured when this is first used: seconds."""
        from railyard.jobs.workloads.measurement import measured_workload  # the jobs, and numpy

        with fetched_inputs() as localized:
            mix = localized(self._mix)
            require_room_to_measure(mix, self._topology)
            return measured_workload(mix, self._topology, self._seed)

    def carry_out(self, session: Session, view: View) -> Outcome:
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
            self._session.link("resourcemanager").ask(SubmitForecasts(jobs=expected), Done)
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
        link = self._session.link("resourcemanager")
        for path, names in readers.items():
            link.ask(NoteInput(path=path, jobs=tuple(names)), Done)

    def _run(self) -> list[tuple[JobEnded, ...]]:
        due = []
        for one in self._jobs:
            first, *others = [partial(self._submission, one, *step) for step in one.steps()]
            due.append(Due(first(), one.job.submit_s, tuple(others)))
        return run_all(self._session, due, self._view, "running")

    def _submission(self, one: Planned, name: str, step: Step) -> SubmitJob:
        forecast = self._forecasts.get(name)
        return self._place.submission(step, one.job.user, one.job.queue, name, forecast)

    def _check(self, ends: Sequence[tuple[JobEnded, ...]]) -> Outcome:
        well = [job for job, steps in zip(self._jobs, ends, strict=True) if steps[-1].ok]
        self._help("checking", lambda one: one.plan.after, well)
        results = []
        for one, steps in zip(self._jobs, ends, strict=True):
            verify = one.plan.verify if steps[-1].ok else None
            verdict = None if verify is None else verify(self._place)
            results.append(Result(name=one.job.name, steps=steps, verdict=verdict))
        return Outcome(results=tuple(results), helpers=tuple(self._helpers))

    def _help(
        self, title: str, steps_of: Callable[[Planned], tuple[Step, ...]], jobs: Sequence[Planned]
    ) -> None:
        """Run the steps before or after jobs: all first steps at once, then all second ones ..."""
        for steps in zip_longest(*map(steps_of, jobs)):
            due: dict[str, Due] = {}  #: by output; equal ones are done once
            for step, one in zip(steps, jobs, strict=True):
                if step is not None and step.output not in due:
                    job = self._place.submission(step, one.job.user, one.job.queue)
                    due[step.output] = Due(job)
            every = run_all(self._session, list(due.values()), self._view, title)
            for wanted, [end] in zip(due.values(), every, strict=True):
                self._helpers.append(end)
                if not end.ok:
                    raise JobFailed(wanted.job.name, end)

    def show(self, summary: dict[str, Any], topology: Topology) -> None:
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

    outcome: Outcome
    summary: dict[str, Any]
    unwritten: NotWritten | None = None  #: why the folder for results is incomplete


def run_on(session: Session, work: Work, view: View, results: Path | None) -> Ran:
    """Carry out work; ``results`` is a new folder for all files of the run."""
    session.on_death = lambda death: view.say(
        f"the {death['role']} {death['name']} died ({death['how']}); {death['next']}"
    )
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
            save_emulation(session.folder, results, summary, watch)
        except NotWritten as error:  # the results are shown first
            unwritten = error
    return Ran(outcome, summary, unwritten)


@contextmanager
def session_for(up: RunFolder | None, config: ClusterConfig, view: View) -> Iterator[Session]:
    """A session with the cluster that is up, or else with one of its own."""
    topology = config.topology
    if up is None:
        view.say(f"starting {topology.name}: {topology.racks.count} racks, {topology.slots} slots")
    with own_session(config) if up is None else connected(up, config) as session:
        yield session


def require_well(ran: Ran, name: str) -> None:
    """Raise what went wrong, if anything did: files not written, a job failed, wrong output."""
    if ran.unwritten is not None:
        raise ran.unwritten
    if ran.outcome.failure is not None:
        raise ran.outcome.failure
    if ran.outcome.verified is False:
        raise NotVerified(f"the output of {name} is not right")


# Submitting jobs, and following them until they have ended ---------------------------------------
#: Seconds that an interrupted command waits for the ResourceManager's answer.
_ANSWER_S = 2.0
#: When jobs have not gone on for so long, it is said which links carry nothing.
_STILL_S = 10.0
#: So many of them are named.
_LINKS_MAX = 4


@dataclass(frozen=True)
class Due:
    """A job to submit, and when: seconds from when the first one may be."""

    job: SubmitJob
    at_s: float = 0.0
    #: each makes the next step of this job, once the step before it has ended well
    then: tuple[Callable[[], SubmitJob], ...] = ()


def run_all(
    session: Session, jobs: Sequence[Due], view: View, title: str = ""
) -> list[tuple[JobEnded, ...]]:
    """Submit jobs, each at its time, and wait for all their ends, which come in the same order.

    A job of several steps has an end for each, up to the first that failed.
    One that fails does not stop the others.  An interrupt kills them all, since the cluster may go
    on without us; so does a job that is refused, and ``Refused`` says why, and a step that cannot
    be made.
    """
    batch = _Batch(session, jobs, view, title)
    try:
        return batch.run()
    except PeerLost:
        raise
    except (Interrupted, RailyardError):
        batch.kill()
        raise
    finally:
        batch.close()


class _Batch:
    """Jobs under way, over one link of their own."""

    def __init__(self, session: Session, jobs: Sequence[Due], view: View, title: str) -> None:
        self._reactor = session.reactor
        self._jobs = jobs
        self._view = view
        self._title = title
        self._begun_s = now_s()  #: when the first may be submitted
        self._names: dict[JobId, str] = {}  #: of those that were accepted
        self._places: dict[JobId, int] = {}  #: the places in ``jobs`` of those that run
        self._progress: dict[JobId, JobProgress] = {}  #: of those that run
        self._ends: list[list[JobEnded]] = [[] for _ in jobs]  #: those of the steps of each
        self._to_go_on: deque[int] = deque()  #: places of jobs whose next step is to be submitted
        self._over = 0  #: how many of ``jobs`` have ended
        self._unanswered: dict[str, Callable[[], None]] = {}  #: submits each again, by its token
        self._killed = False
        self._error: Exception | None = None
        self._tokens = uuid.uuid4().hex  #: names the submissions of this batch
        self._lost_s: float | None = None  #: since when the ResourceManager is gone
        self._transport = session.transport
        self._went_on_s = self._begun_s  #: when a job went on last
        self._network: LastingLink | None = None  #: once none had gone on for a while
        self._link = LastingLink(session.transport, "resourcemanager", self._reconnect)
        self._link.on(JobProgress, lambda progress, _: self._progressed(progress))
        self._link.on(JobEnded, lambda end, _: self._end(end))

    def run(self) -> list[tuple[JobEnded, ...]]:
        """Submit and wait.  Raises ``PeerLost`` and ``Refused``."""
        for place, due in enumerate(self._jobs):
            self._reactor.call_at(self._begun_s + due.at_s, partial(self._submit, place, due.job))
        while self._over < len(self._jobs):
            self._reactor.run_until(self._has_news)
            if self._error is not None:
                raise self._error
            while self._to_go_on:  # not from a handler: making a step may read files
                place = self._to_go_on.popleft()
                self._submit(place, self._jobs[place].then[len(self._ends[place]) - 1]())
        return [tuple(ends) for ends in self._ends]

    def kill(self) -> None:
        """Kill all running jobs, and those that are submitted but not yet accepted."""
        with contextlib.suppress(RailyardError, Interrupted), deferred():
            self._killed = True
            for submit in list(self._unanswered.values()):
                submit()  # an interrupt may have come between an answer and its handling
            self._reactor.run_until(lambda: not self._unanswered, _ANSWER_S)
            for job in list(self._places):
                if job in self._places:  # others may end meanwhile
                    wish = KillJob(job=job, reason="interrupted by its user")
                    self._link.ask(wish, Done, timeout_s=_ANSWER_S)

    def close(self) -> None:
        self._link.close()
        if self._network is not None:
            self._network.close()

    def _has_news(self) -> bool:
        return bool(self._error or self._to_go_on) or self._over == len(self._jobs)

    def _submit(self, place: int, job: SubmitJob) -> None:
        def answered(answer: JobAccepted | Refusal, _: object) -> None:
            if token not in self._unanswered:
                return  # it was submitted twice
            if isinstance(answer, JobAccepted):
                self._names[answer.job], self._places[answer.job] = job.name, place
                self._link.request(WatchJob(job=answer.job), Done, self._watched)
            else:
                self._error = self._error or Refused(str(answer))
            del self._unanswered[token]

        if self._error is None and not self._killed:
            token = f"{self._tokens}-{place}-{len(self._ends[place])}"
            named = msgspec.structs.replace(job, token=token)
            submit = partial(self._link.insist, named, JobAccepted, answered)
            self._unanswered[token] = submit
            submit()

    def _reconnect(self) -> None:
        """Its connection broke: watch all jobs again, by another process, it may be."""
        if self._lost_s is None:
            self._lost_s = now_s()
        for job in self._places:
            self._link.request(WatchJob(job=job), Done, self._watched)

    def _watched(self, answer: Done | Refusal | PeerLost, _: object) -> None:
        if isinstance(answer, Refusal):
            self._error = self._error or Refused(str(answer))
        elif isinstance(answer, Done) and self._lost_s is not None:
            away_s, self._lost_s = now_s() - self._lost_s, None
            self._view.say(f"the ResourceManager was restarted: {away_s:.1f} s")

    def _progressed(self, progress: JobProgress) -> None:
        before = self._progress.get(progress.job)
        same = before and msgspec.structs.replace(before, elapsed_s=progress.elapsed_s)
        if same != progress:
            self._went_on_s = now_s()
        elif now_s() > self._went_on_s + _STILL_S:
            self._went_on_s = now_s()  # to be said again after as long
            if self._network is None:
                self._network = LastingLink(self._transport, "network")
            self._network.request(WatchNetwork(period_s=_STILL_S), NetworkView, self._show_stopped)
        self._progress[progress.job] = progress
        if len(self._jobs) == 1:
            self._view.show(self._names[progress.job], progress)
        else:
            self._view.show_all(
                BatchProgress(
                    title=self._title,
                    elapsed_s=now_s() - self._begun_s,
                    done=self._over,
                    jobs=len(self._jobs),
                    running={self._names[job]: one for job, one in self._progress.items()},
                )
            )

    def _show_stopped(self, view: NetworkView | Refusal | PeerLost, _: object) -> None:
        """Say which links carry nothing: a job that needs one of them waits until it does."""
        links = view.links.items() if isinstance(view, NetworkView) else ()
        stopped = [name for name, link in links if not link.capacity_bytes_per_s]
        if stopped:
            more = f" and {len(stopped) - _LINKS_MAX} more" if len(stopped) > _LINKS_MAX else ""
            names = ", ".join(stopped[:_LINKS_MAX]) + more
            self._view.say(
                f"nothing has gone on for {_STILL_S:g} s; links that carry nothing: {names} "
                "(railyard network set LINK default)"
            )

    def _end(self, end: JobEnded) -> None:
        self._progress.pop(end.job, None)
        if end.job not in self._places:
            return  # it was told before a connection broke, and again
        place = self._places.pop(end.job)
        ends = self._ends[place]
        ends.append(end)
        if end.ok and len(ends) <= len(self._jobs[place].then):
            self._to_go_on.append(place)
        else:
            self._over += 1
