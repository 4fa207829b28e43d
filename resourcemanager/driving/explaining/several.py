"""Explains several jobs and tasks of a run from one replay: for pages, which show many.

Never here: which ones are worth it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from railyard.cluster.ids import JobId, TaskId, is_job, job_of
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.state.jobs import Job, Node
from railyard.resourcemanager.driving.eventlog import read_log, replay_on
from railyard.resourcemanager.driving.explaining.explain import explained_job, explained_task
from railyard.resourcemanager.driving.explaining.explanation import JobExplanation, TaskExplanation
from railyard.resourcemanager.driving.explaining.recorder import Recorder
from railyard.resourcemanager.driving.makecore import core_for
from railyard.resourcemanager.interface.decisions import Decision, Proposal


def explain_several(events: Path, of: Iterable[str]) -> dict[str, JobExplanation | TaskExplanation]:
    """The explanations of jobs ("j3") and tasks ("j3.m7"); those not in the log are left out.

    Costs a replay, and about 2 us for each event and each of them.  Raises ``Diverged`` if the
    replay does not give the log's commands.
    """
    config, logged = read_log(events)
    core = core_for(config)
    recorders = {what: _recorder_of(core, what) for what in of}
    core.observe(_All(list(recorders.values())))
    for step in replay_on(core, events, logged):
        for recorder in recorders.values():
            recorder.take(step)
    found: dict[str, JobExplanation | TaskExplanation] = {}
    for what, recorder in recorders.items():
        recorder.finish()
        if recorder.submitted is not None:
            found[what] = (
                explained_job(config, recorder)
                if is_job(what)
                else explained_task(config, recorder, TaskId(what))
            )
    return found


class _All:
    """Several observers as one."""

    def __init__(self, observers: Sequence[Recorder]) -> None:
        self._observers = observers

    def answered(self, job: Job, slot: Node, answer: Decision) -> None:
        for observer in self._observers:
            observer.answered(job, slot, answer)

    def proposed(self, proposal: Proposal) -> None:
        for observer in self._observers:
            observer.proposed(proposal)


def _recorder_of(core: Core, what: str) -> Recorder:
    if is_job(what):
        return Recorder(core, JobId(what))
    return Recorder(core, job_of(what), TaskId(what))
