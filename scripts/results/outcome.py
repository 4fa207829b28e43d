"""How a job, or a mix of jobs, ended on a cluster: whether it is right, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass

from railyard.cluster.errors import RailyardError
from railyard.cluster.ids import JobId
from railyard.cluster.shown import printable
from railyard.jobs.samples.sample import Step, Verdict
from railyard.resourcemanager.core.state.records import TaskFailure
from railyard.resourcemanager.process.messages import JobEnded

#: Lines at the end of an attempt's standard error that are shown.
_STDERR_LINES = 15
#: Letters of a line that are shown.
_LETTERS_MAX = 400


class JobFailed(RailyardError):
    """A job did not end well; the text is a report for whoever wrote the job."""

    def __init__(self, name: str, ended: JobEnded) -> None:
        super().__init__(failure_report(name, ended))
        self.ended = ended


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the jobs of a plan ended."""

    jobs: dict[str, JobEnded]  #: all that ran, in order, by their steps' names
    measured: tuple[Step, ...]  #: the requested steps, or the one that failed
    failure: JobFailed | None = None
    verdict: Verdict | None = None  #: None: there is nothing to check the output against

    @property
    def output(self) -> str:
        """Folder of the block store with the output."""
        return self.measured[-1].output

    @property
    def verified(self) -> bool | None:
        """Whether the output is right; None if that is not known."""
        if self.failure is not None:
            return False
        return None if self.verdict is None else self.verdict.ok

    def measured_jobs(self) -> tuple[tuple[JobId, ...], ...]:
        """The job that the summary is about: its steps, one after the other."""
        return (tuple(self.jobs[step.name].job for step in self.measured),)

    def all_jobs(self) -> tuple[JobId, ...]:
        """These, and those that prepared and checked."""
        return tuple(end.job for end in self.jobs.values())


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a job of a mix ended."""

    name: str
    steps: tuple[JobEnded, ...]  #: the ends of its steps, at least one
    verdict: Verdict | None  #: None: it failed, or there is nothing to check its output against

    @property
    def ended(self) -> JobEnded:
        """The end of its last step, or of the one that failed."""
        return self.steps[-1]

    @property
    def verified(self) -> bool | None:
        """Whether its output is right; None if that is not known."""
        if not self.ended.ok:
            return False
        return None if self.verdict is None else self.verdict.ok


@dataclass(frozen=True, kw_only=True)
class MixOutcome:
    """How the jobs of a mix ended."""

    results: tuple[Result, ...]  #: in the order in which the jobs were submitted
    helpers: tuple[JobEnded, ...]  #: the jobs that prepared and checked

    @property
    def failure(self) -> JobFailed | None:
        """The failure of the first job that failed."""
        failed = (result for result in self.results if not result.ended.ok)
        first = next(failed, None)
        return None if first is None else JobFailed(first.name, first.ended)

    @property
    def verified(self) -> bool | None:
        """Whether all outputs are right; None if no output was checked."""
        known = [result.verified for result in self.results if result.verified is not None]
        return all(known) if known else None

    def wrong(self) -> list[Result]:
        """The jobs that ended well with wrong output."""
        return [result for result in self.results if result.ended.ok and result.verified is False]

    def measured_jobs(self) -> tuple[tuple[JobId, ...], ...]:
        """The jobs that the summary is about: the steps of each, one after the other."""
        return tuple(tuple(step.job for step in result.steps) for result in self.results)

    def all_jobs(self) -> tuple[JobId, ...]:
        """These, and those that prepared and checked."""
        measured = (step for steps in self.measured_jobs() for step in steps)
        return (*measured, *(end.job for end in self.helpers))


def failure_report(name: str, end: JobEnded) -> str:
    """Why a job failed: the reason, then the task that broke, where, and what it said."""
    lines = [f"{printable(name)} ({end.job}) failed: {printable(end.reason)}"]
    if end.failures:
        lines += _describe(end.failures[-1])
        others = len(end.failures) - 1
        if others:
            lines.append(f"  {others} more failed attempts: {_summary(end.failures[:-1])}")
    return "\n".join(lines)


def _describe(failure: TaskFailure) -> list[str]:
    lines = [
        f"  task {failure.task}, attempt {failure.attempt} on {failure.node}: "
        f"{printable(failure.reason)}"
    ]
    said = failure.stderr.strip("\n").split("\n")
    if said != [""]:
        lines.append("  its standard error ends with:")
        lines += [f"    {printable(line, _LETTERS_MAX)}" for line in said[-_STDERR_LINES:]]
    return lines


def _summary(failures: tuple[TaskFailure, ...]) -> str:
    return ", ".join(f"{failure.attempt} on {failure.node}" for failure in failures)
