"""One run of one plan of jobs on a cluster: input in, jobs one after the other, output checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path

from railyard.cluster.errors import UsageError, printable
from railyard.cluster.ids import rack_id
from railyard.cluster.messaging.wire import Done
from railyard.cluster.units import format_count
from railyard.dfs.client import DfsClient
from railyard.jobs.inputs import LocalFile
from railyard.jobs.package import load_job
from railyard.jobs.plan import Plan, Step, Verdict
from railyard.jobs.taskio import FileReader
from railyard.jobs.workloads.mixes import Planned
from railyard.jobs.workloads.model import Workload
from railyard.jobs.workloads.transforms import rack_of_each
from railyard.resourcemanager.interface.forecast import Forecast, predicted_jobs
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    GetClusterStatus,
    JobEnded,
    NoteInput,
    SubmitForecasts,
    SubmitJob,
)
from railyard.resourcemanager.schedulers import recipe_named
from railyard.runs.clusters import Session
from railyard.runs.files import Racks, copy_in, planned_racks
from railyard.runs.submission import Due, run_all, run_to_end
from railyard.runs.summary import JobFailed, MixOutcome, Outcome, Result
from railyard.terminal.progress import View


@dataclass(frozen=True)
class Submitter:
    """User and queue of jobs, which schedulers share slots by."""

    user: str
    queue: str


class Workplace:
    """A cluster on which a plan runs; it is the plan's ``jobs.plan.Files``."""

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
            if path in self._brought:
                continue
            self._brought.add(path)
            self._view.say(f"storing {printable(str(local))} as {path}")
            copy_in(self.store, str(local), path, racks=racks)

    def check(self, plan: Plan) -> None:
        """Raise ``UsageError`` early for a plan that would fail in the end."""
        source = plan.steps[0].input
        for step in plan.measured:
            if self.store.exists(step.output):
                right = "need a new path, or remove it first"
                raise UsageError(f"output {step.output}: exists already: {right}")
        if source and not self._locals and plan.check_sizes is not None:
            plan.check_sizes([self.open(path).stored_bytes for path in self.list(source)])

    def carry_out(self, plan: Plan, submitter: Submitter) -> Outcome:
        """Run all jobs of a plan and check the output; stop at a job that fails."""
        ended: dict[str, JobEnded] = {}
        for step in plan.steps:
            try:
                job = self.submission(step, submitter)
                ended[step.name] = run_to_end(self._session, job, self._view)
            except JobFailed as failure:
                ended[step.name] = failure.ended
                begun = tuple([one for one in plan.measured if one.name in ended])
                of = begun if step.measured else (step,)
                return Outcome(jobs=ended, measured=of, failure=failure)
        return Outcome(
            jobs=ended,
            measured=plan.measured,
            verdict=plan.verify(self) if plan.verify is not None else None,
        )

    def submission(
        self, step: Step, submitter: Submitter, name: str = "", forecast: Forecast | None = None
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
            user=submitter.user,
            queue=submitter.queue,
            forecast=forecast,
        )

    # jobs.sample.Files -------------------------------------------------------------------------
    def list(self, folder: str) -> list[str]:
        """Paths of the data files in a folder; of the file itself if it is one."""
        files = [entry.path for entry in self.store.list(folder) if not entry.folder]
        return [path for path in files if not path.rsplit("/", 1)[-1].startswith("_")]

    def open(self, path: str) -> FileReader:
        """A file; the local one if it was copied from there: checks do not rest on the copy."""
        local = self._locals.get(path)
        return LocalFile(local) if local is not None else self.store.open(path)


# Forecasts of a mix's jobs, sent to a cluster before the jobs' inputs are made.
#
# They are the forecasts that the simulator makes for the same mix: its jobs' own sizes, measured,
# with the errors that were asked for.


def send_forecasts(
    session: Session, view: View, workload: Callable[[], Workload]
) -> dict[str, Forecast]:
    """Send the scheduler the forecasts of the jobs to come; returns {job's name: forecast}.

    A scheduler that does not use forecasts is sent none; then ``workload``, which may take seconds
    to measure, is not called either.
    """
    scheduler = session.config.scheduler
    if not recipe_named(scheduler).uses_forecasts:
        return {}
    jobs = workload().jobs
    link = session.link("resourcemanager")
    begin_s = link.ask(GetClusterStatus(), ClusterStatus).now_s
    expected = predicted_jobs(jobs, begin_s)
    if expected:
        link.ask(SubmitForecasts(jobs=expected), Done)
    count = format_count(len(jobs), "job")
    view.say(f"forecasts for {scheduler}: {len(expected)} of {count}, with sizes measured ahead")
    return {job.job: job.forecast for job in expected}


# Runs a mix of jobs on one cluster: makes inputs, submits each job at its time, checks outputs.
#
# Inputs that are equal are made once.  Everything is prepared before the first job is submitted,
# and nothing is checked before the last one has ended, so that the jobs have the cluster to
# themselves. Forecasts of the jobs are sent before all of that, so that a scheduler can plan their
# data.


class MixRun:
    """A mix under way on a cluster; ``forecasts`` are those of its jobs that were predicted."""

    def __init__(
        self,
        session: Session,
        view: View,
        jobs: Sequence[Planned],
        forecasts: Mapping[str, Forecast],
    ) -> None:
        self._session = session
        self._view = view
        self._jobs = jobs
        self._forecasts = forecasts
        copies = {path: local for one in jobs for path, local in one.given.copies.items()}
        self._place = Workplace(session, view, copies)
        self._helpers: list[JobEnded] = []

    def carry_out(self) -> MixOutcome:
        """Prepare, run, check.  ``JobFailed`` if a job that prepares or checks fails."""
        for planned in self._jobs:
            if planned.job.skew is not None:
                continue  # skewed input: its racks are given
            name, size = planned.job.name, planned.stored_bytes
            if size:  # otherwise it is there already
                self._place.announce(planned.plan, size, name, self._forecasts.get(name))
        for planned in self._jobs:
            self._place.bring_input(planned.plan, planned.given.copies)
        self._help("preparing", lambda planned: planned.plan.before, self._jobs)
        readers: dict[str, list[str]] = {}
        for planned in self._jobs:
            for name, step in planned.steps():
                for path in dict.fromkeys(step.sources):
                    if path in planned.plan.sources:
                        readers.setdefault(path, []).append(name)
        for path, names in readers.items():
            self._place.note(path, names)
        ends = self._run()
        return self._check(ends)

    def _run(self) -> list[tuple[JobEnded, ...]]:
        due = []
        for planned in self._jobs:
            first, *others = [partial(self._submission, planned, *step) for step in planned.steps()]
            due.append(Due(first(), planned.job.submit_s, tuple(others)))
        return run_all(self._session, due, self._view, "running")

    def _submission(self, planned: Planned, name: str, step: Step) -> SubmitJob:
        """The message that submits a step of a job, under this name."""
        forecast = self._forecasts.get(name)
        return self._place.submission(step, _submitter(planned), name, forecast)

    def _check(self, ends: Sequence[tuple[JobEnded, ...]]) -> MixOutcome:
        well = [job for job, steps in zip(self._jobs, ends, strict=True) if steps[-1].ok]
        self._help("checking", lambda planned: planned.plan.after, well)
        results = tuple(
            Result(
                name=planned.job.name,
                steps=steps,
                verdict=self._verdict(planned.plan) if steps[-1].ok else None,
            )
            for planned, steps in zip(self._jobs, ends, strict=True)
        )
        return MixOutcome(results=results, helpers=tuple(self._helpers))

    def _verdict(self, plan: Plan) -> Verdict | None:
        return None if plan.verify is None else plan.verify(self._place)

    def _help(
        self, title: str, steps_of: Callable[[Planned], tuple[Step, ...]], jobs: Sequence[Planned]
    ) -> None:
        """Run the steps before or after jobs: all first steps at once, then all second ones ..."""
        for steps in zip_longest(*map(steps_of, jobs)):
            due: dict[str, Due] = {}  #: by output; equal ones are done once
            for step, planned in zip(steps, jobs, strict=True):
                if step is not None and step.output not in due:
                    due[step.output] = Due(self._place.submission(step, _submitter(planned)))
            every = run_all(self._session, list(due.values()), self._view, title)
            ends = [end for [end] in every]
            self._helpers += ends
            for wanted, end in zip(due.values(), ends, strict=True):
                if not end.ok:
                    raise JobFailed(wanted.job.name, end)


def _submitter(planned: Planned) -> Submitter:
    return Submitter(planned.job.user, planned.job.queue)
