"""Runs a mix of jobs on one cluster: makes inputs, submits each job at its time, checks outputs.

Inputs that are equal are made once.  Everything is prepared before the first job is submitted, and
nothing is checked before the last one has ended, so that the jobs have the cluster to themselves.
Forecasts of the jobs are sent before all of that, so that a scheduler can plan their data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest

from railyard.jobs.mixes.mixplans import Planned
from railyard.jobs.samples.sample import Plan, Step, Verdict
from railyard.resourcemanager.interface.forecast import Forecast
from railyard.resourcemanager.process.messages import JobEnded, SubmitJob
from railyard.scripts.clusters.session import Session
from railyard.scripts.results.outcome import JobFailed, MixOutcome, Result
from railyard.scripts.running.submission import Due, run_all
from railyard.scripts.running.workplace import Submitter, Workplace
from railyard.scripts.terminal.progress import View


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
