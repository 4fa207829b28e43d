"""Explains a file: where its replicas were to go, which blocks were moved and why, who reads it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.state.jobs import Job, Node
from railyard.resourcemanager.driving.eventlog import Step, read_log, replay_on
from railyard.resourcemanager.driving.explaining.explanation import (
    BlockMove,
    FileExplanation,
    FileReader,
)
from railyard.resourcemanager.driving.explaining.headers import header
from railyard.resourcemanager.driving.makecore import core_for
from railyard.resourcemanager.interface.commands import PlaceData
from railyard.resourcemanager.interface.decisions import Decision, MoveInput, Proposal
from railyard.resourcemanager.interface.events import (
    DataAnnounced,
    DataStored,
    InputMoved,
    InputNotMoved,
    JobSubmitted,
)

_BLOCKS = "where the store's own rule put each block and why: only what jobs read of it is recorded"


class _FileLog:
    """What a replay tells of a file: the observer of proposals about it."""

    def __init__(self, core: Core, path: str) -> None:
        self._core, self._path = core, path.rstrip("/")
        self.paths: dict[str, None] = {}  #: all files and folders that were seen
        self.announced: tuple[float, DataAnnounced] | None = None
        self.racks: tuple[tuple[RackId, ...], ...] = ()
        self.blocks: dict[tuple[str, int], tuple[NodeId, ...]] = {}
        self.moves: list[BlockMove] = []
        self.readers: list[FileReader] = []
        core.observe(self)

    def answered(self, job: Job, slot: Node, answer: Decision) -> None:
        """Slots are no concern of files."""

    def proposed(self, proposal: Proposal) -> None:
        if isinstance(proposal, MoveInput) and self._has(proposal.path):
            move = BlockMove(
                path=proposal.path,
                block=proposal.block,
                node=proposal.node,
                source=proposal.source,
                why=proposal.why,
                asked_s=self._core.state.now_s,
            )
            self.moves.append(move)

    def take(self, step: Step) -> None:
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
        for plan in job.stages:
            for task in plan.inputs:
                for split in task.splits:
                    if self._has(split.path):
                        splits += 1
                        racks.update({rack_of(node): 1 for node in task.nodes})
                        if not self._core.state.uses_data:
                            self.blocks[split.path, split.stored_offset] = task.nodes
        if splits:
            read = FileReader(
                job=job.job, job_name=job.name, at_s=now_s, splits=splits,
                racks=dict(sorted(racks.items())),
            )  # fmt: skip
            self.readers.append(read)


def explain_file(events: Path, config: ClusterConfig, path: str) -> FileExplanation:
    """A file, or a folder with all files in it; ``UsageError`` if no event is about it."""
    core = core_for(config)
    log, recorded_s = _FileLog(core, path), 0.0
    for step in replay_on(core, events, read_log(events)[1]):
        log.take(step)
        recorded_s = step.at_s
    if not (log.announced or log.blocks or log.readers):
        there = ", ".join(log.paths) or "none"
        raise UsageError(f"{path}: no event is about it; there are: {there}")
    return FileExplanation(
        **header(config, path, recorded_s),
        unknown=[_BLOCKS],
        announced_s=log.announced[0] if log.announced else None,
        for_job=log.announced[1].job if log.announced else "",
        racks=log.racks,
        who=f"{config.scheduler}/data",
        blocks=[log.blocks[key] for key in sorted(log.blocks)],
        moves=log.moves,
        readers=log.readers,
    )
