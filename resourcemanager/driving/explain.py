"""Explains a task, attempt, job, coflow, flow, circuit or file of a run, from its events.

    j3          a job
    j3.m7       a task; j3.m7.0 one of its attempts
    j3.r        a stage that reads others: its coflow
    j3.r2.0:r0n1:0   a flow, as events and traces name it
    r0-r3       circuits from one rack to another
    /in/data    a file, or the folder of a job's input

Never here: how explanations look.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import (
    JobId,
    NodeId,
    RackId,
    StageId,
    TaskId,
    is_attempt,
    is_job,
    job_of,
    rack_of,
    stage_id,
    stage_of,
)
from railyard.netemu.record import CircuitUse
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.eventlog import Step
from railyard.resourcemanager.driving.explanation import (
    AnyExplanation,
    AttemptStory,
    BlockMove,
    FileExplanation,
    FileReader,
    JobExplanation,
    StageStory,
    TaskExplanation,
)
from railyard.resourcemanager.driving.history import Change
from railyard.resourcemanager.driving.networkstories import (
    explain_circuit,
    explain_coflow,
    explain_flow,
    idle_times,
)
from railyard.resourcemanager.driving.stories import Recorder, RunObserver, Waits, replay_for
from railyard.resourcemanager.interface.commands import PlaceData
from railyard.resourcemanager.interface.decisions import MoveInput, Proposal
from railyard.resourcemanager.interface.events import (
    DataAnnounced,
    DataStored,
    InputMoved,
    InputNotMoved,
    JobSubmitted,
    StagePlan,
)

_STAGE = re.compile(r"j\d+\.[a-z]+")
_TASK = re.compile(r"(j\d+\.[a-z]+)\d+")
_FLOW = re.compile(r"j\d+\.[a-z]+\d+\.\d+:r\d+n\d+:\d+")
_CIRCUIT = re.compile(r"(r\d+)(?:-| to )(r\d+)")
_REPLICA = "which of the replicas it read, and what that one's disk and links had to do then"


def explain(
    events: Path, what: str, circuits: Sequence[CircuitUse] | None = None
) -> AnyExplanation:
    """The explanation of ``what``, from a log of events.

    ``circuits``: the run's record of circuits; None = there is none.  Raises ``UsageError`` for
    what is no id, or not in the log, and ``Diverged`` if a replay does not give the log's commands.
    """
    if what.startswith("/"):
        return explain_file(events, what)
    if match := _CIRCUIT.fullmatch(what):
        return explain_circuit(events, RackId(match[1]), RackId(match[2]), circuits)
    if is_job(what):
        return explained_job(replayed(events, JobId(what)))
    if _FLOW.fullmatch(what):
        return explain_flow(replayed(events, job_of(what)), what, circuits)
    if _STAGE.fullmatch(what):
        return explain_coflow(replayed(events, job_of(what)), StageId(what), circuits)
    if is_attempt(what) or _TASK.fullmatch(what):
        attempt = what if is_attempt(what) else None
        task = TaskId(what.rsplit(".", 1)[0] if attempt else what)
        return explained_task(replayed(events, job_of(task), task), task, attempt)
    raise UsageError(
        f"{what}: need a job (j3), a task (j3.m7), an attempt (j3.m7.0), a coflow (j3.r), a flow "
        "(j3.r2.0:r0n1:0), circuits (r0-r3) or a file (/in/data)"
    )


def replayed(events: Path, job: JobId, task: TaskId | None = None) -> Recorder:
    """What a replay of the run says of a job; ``UsageError`` if it has no such job or task."""
    [recorder] = replay_for(events, [lambda core: Recorder(core, job, task)])
    if recorder.submitted is None:
        jobs = ", ".join(recorder.jobs) or "none"
        raise UsageError(f"{job}: there is no such job in {events}; there are: {jobs}")
    if task is not None:
        _require_task(task, recorder.submitted)
    return recorder


def _require_task(task: TaskId, job: JobSubmitted) -> None:
    name = task.split(".", 1)[1]
    stage = name.rstrip("0123456789")
    tasks = {plan.name: plan.tasks for plan in job.stages}
    if int(name[len(stage) :]) >= tasks.get(stage, 0):
        there = " and ".join(_tasks_of(job.job, plan) for plan in job.stages)
        raise UsageError(f"{task}: there is no such task; {job.job} has {there}")


def _tasks_of(job: JobId, stage: StagePlan) -> str:
    """A stage's tasks as one says them: "16 reduces (j1.r0 to j1.r15)"."""
    kind, first = "reduce" if stage.reads else "map", f"{job}.{stage.name}0"
    if stage.tasks == 1:
        return f"one {kind} ({first})"
    return f"{stage.tasks} {kind}s ({first} to {job}.{stage.name}{stage.tasks - 1})"


def explained_task(recorder: Recorder, task: TaskId, attempt: str | None = None) -> TaskExplanation:
    """What a recorder of a task has noted, of one attempt or all; ``UsageError`` if it had none."""
    waits = recorder.waits.get(task, Waits())
    stories = list(recorder.attempts.stories.values())
    if attempt is not None:
        stories = [story for story in stories if story.attempt == attempt]
        if not stories:
            there = ", ".join(recorder.attempts.stories) or "none"
            raise UsageError(f"{attempt}: there is no such attempt; {task} has {there}")
    for story in stories:
        story.idle = list(idle_times(story))
    assert recorder.submitted is not None, f"{task} is of a job that was submitted"
    return TaskExplanation(
        **recorder.header(attempt or task),
        unknown=list(_unknown_of(stories)),
        job=recorder.job,
        job_name=recorder.submitted.name,
        stage=StageId(task.rstrip("0123456789")),
        submitted_s=recorder.submitted_s,
        runnable_s=waits.runnable_s,
        waits=waits.waits,
        answers=waits.answers,
        turns=waits.turns,
        plans=waits.plans,
        attempts=stories,
        state=recorder.task_state,
    )


def _unknown_of(stories: Sequence[AttemptStory]) -> Iterator[str]:
    if any(len(story.replicas) > 1 for story in stories):
        yield _REPLICA
    if any(story.chosen is None and story.slot_s is not None for story in stories):
        yield "which answer led to an attempt"


def explained_job(recorder: Recorder) -> JobExplanation:
    """What a recorder of a job has noted."""
    submitted = recorder.submitted
    assert submitted is not None, "it was submitted"
    return JobExplanation(
        **recorder.header(recorder.job),
        job_name=submitted.name,
        user=submitted.user,
        queue=submitted.queue,
        submitted_s=recorder.submitted_s,
        ended_s=recorder.ended_s,
        outcome=recorder.outcome or "runs at the end of the record",
        stages=[stage_story(recorder, plan) for plan in submitted.stages],
    )


def explain_several(events: Path, of: Iterable[str]) -> dict[str, JobExplanation | TaskExplanation]:
    """The explanations of jobs ("j3") and tasks ("j3.m7"); those not in the log are left out.

    Costs a replay, and about 2 us for each event and each of them.  Raises ``Diverged`` if the
    replay does not give the log's commands.
    """
    wanted = list(of)
    recorders = replay_for(events, [partial(_recorder_of, what) for what in wanted])
    return {
        what: explained_job(recorder) if is_job(what) else explained_task(recorder, TaskId(what))
        for what, recorder in zip(wanted, recorders, strict=True)
        if recorder.submitted is not None
    }


def _recorder_of(what: str, core: Core) -> Recorder:
    return Recorder(core, job_of(what), None if is_job(what) else TaskId(what))


_PLANS_MAX = 10
#: Figures in a reason that differ from attempt to attempt, such as seconds waited.
_DECIMALS = re.compile(r"\d+\.\d+(e[+-]?\d+)?")


def stage_story(recorder: Recorder, plan: StagePlan) -> StageStory:
    """What was noted of a stage."""
    name = stage_id(recorder.job, plan.name)
    waits = recorder.waits.get(name, Waits())
    stories = [s for s in recorder.attempts.stories.values() if stage_of(s.attempt) == name]
    slots_s = [story.slot_s for story in stories if story.slot_s is not None]
    plans = [each.chosen.planned for each in stories if each.chosen and each.chosen.planned]
    return StageStory(
        stage=name,
        tasks=plan.tasks,
        needed=plan.needed or plan.tasks,
        reads=plan.reads,
        runnable_s=waits.runnable_s,
        first_launch_s=min(slots_s, default=None),
        done_s=recorder.done_s.get(name),
        waits=waits.waits,
        answers=waits.answers,
        turns=waits.turns,
        attempts=len(stories),
        copies=sum(s.chosen is not None and s.chosen.how == "copied" for s in stories),
        levels=dict(Counter(story.level for story in stories)),
        racks=dict(sorted(Counter(rack_of(story.node) for story in stories).items())),
        whys=_whys(stories),
        planned=list(dict.fromkeys(plans))[:_PLANS_MAX],
    )


def _whys(stories: Iterable[AttemptStory]) -> dict[str, int]:
    """{why: attempts}, the most usual first; decimals that differ are the first one's."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for story in stories:
        why = story.chosen.why if story.chosen else "unknown"
        counts[first.setdefault(_DECIMALS.sub("#", why), why)] += 1
    return dict(counts.most_common())


_BLOCKS = "where the store's own rule put each block and why: only what jobs read of it is recorded"


class _FileRecorder(RunObserver):
    def __init__(self, core: Core, path: str) -> None:
        self._core, self._path = core, path.rstrip("/")
        self.paths: dict[str, None] = {}  #: all files and folders that were seen
        self.announced: tuple[float, DataAnnounced] | None = None
        self.racks: tuple[tuple[RackId, ...], ...] = ()
        self.blocks: dict[tuple[str, int], tuple[NodeId, ...]] = {}
        self.moves: list[BlockMove] = []
        self.readers: list[FileReader] = []

    def proposed(self, proposal: Proposal) -> None:
        if isinstance(proposal, MoveInput) and self._has(proposal.path):
            fields, now_s = msgspec.structs.asdict(proposal), self._core.state.now_s
            self.moves.append(BlockMove(**fields, asked_s=now_s))

    def take(self, step: Step, _: Sequence[Change]) -> None:
        match step.event:
            case DataAnnounced(path=path) if self._has(path):
                self.announced = step.at_s, step.event
                placed = [each for each in step.commands if isinstance(each, PlaceData)]
                self.racks = placed[0].racks if placed else ()
            case DataStored(path=path, blocks=blocks, first=first) if self._has(path):
                for at, block in enumerate(blocks, start=first):
                    self.blocks[path, at] = block.nodes
            case InputMoved(path=path, block=block, nodes=nodes) if self._has(path):
                self.blocks[path, block] = nodes
                self._move_over((path, block), "moved", step.at_s)
            case InputNotMoved(path=path, block=block, reason=reason) if self._has(path):
                self._move_over((path, block), f"not moved: {reason}", step.at_s)
            case JobSubmitted():
                self._read_by(step.event, step.at_s)

    def _has(self, path: str) -> bool:
        self.paths[path] = None
        return path == self._path or path.startswith(self._path + "/")

    def _move_over(self, key: tuple[str, int], outcome: str, now_s: float) -> None:
        for move in self.moves:
            if (move.path, move.block) == key and move.ended_s is None:
                move.ended_s, move.outcome = now_s, outcome

    def _read_by(self, job: JobSubmitted, now_s: float) -> None:
        racks: Counter[RackId] = Counter()
        splits = 0
        for task in (task for plan in job.stages for task in plan.inputs):
            for split in task.splits:
                if self._has(split.path):
                    splits += 1
                    racks.update({rack_of(node): 1 for node in task.nodes})
                    if not self._core.state.uses_data:
                        self.blocks[split.path, split.stored_offset] = task.nodes
        if splits:
            by_rack = dict(sorted(racks.items()))
            self.readers.append(
                FileReader(job=job.job, job_name=job.name, at_s=now_s, splits=splits, racks=by_rack)
            )


def explain_file(events: Path, path: str) -> FileExplanation:
    """A file, or a folder with all files in it; ``UsageError`` if no event is about it."""
    [log] = replay_for(events, [lambda core: _FileRecorder(core, path)])
    if not (log.announced or log.blocks or log.readers):
        there = ", ".join(log.paths) or "none"
        raise UsageError(f"{path}: no event is about it; there are: {there}")
    return FileExplanation(
        **log.header(path),
        unknown=[_BLOCKS],
        announced_s=log.announced[0] if log.announced else None,
        for_job=log.announced[1].job if log.announced else "",
        racks=log.racks,
        who=f"{log.config.scheduler}/data",
        blocks=[log.blocks[key] for key in sorted(log.blocks)],
        moves=log.moves,
        readers=log.readers,
    )
