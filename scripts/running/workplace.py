"""One run of one plan of jobs on a cluster: input in, jobs one after the other, output checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import rack_id
from railyard.cluster.messaging.wire import Done
from railyard.cluster.shown import printable
from railyard.dfs.client import DfsClient
from railyard.jobs.mixes.given import LocalFile
from railyard.jobs.package import load_job
from railyard.jobs.samples.sample import Plan, Step
from railyard.jobs.taskio import FileReader
from railyard.jobs.workloads.skew import rack_of_each
from railyard.resourcemanager.interface.forecast import Forecast
from railyard.resourcemanager.process.messages import JobEnded, NoteInput, SubmitJob
from railyard.scripts.clusters.session import Session
from railyard.scripts.results.outcome import JobFailed, Outcome
from railyard.scripts.running.dataplans import Racks, planned_racks
from railyard.scripts.running.files import copy_in
from railyard.scripts.running.submission import run_to_end
from railyard.scripts.terminal.progress import View


@dataclass(frozen=True)
class Submitter:
    """User and queue of jobs, which schedulers share slots by."""

    user: str
    queue: str


class Workplace:
    """A cluster on which a plan runs; it is the plan's ``jobs.samples.sample.Files``."""

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
