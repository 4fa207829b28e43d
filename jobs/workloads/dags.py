"""Jobs of many stages: chains and trees of them, each stage read by one other.

All tasks of a stage fetch alike; so that a stage has one number of partitions, none is read twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from railyard.jobs.workloads.model import InputFile, WorkStage
from railyard.jobs.workloads.shapes import stage_name


class Node(NamedTuple):
    """A stage to be: what it reads, and how much comes out of it for a byte that goes in."""

    reads: tuple[int, ...]  #: numbers of earlier stages; none: it reads ``file``
    selectivity: float
    file: InputFile | None = None
    tasks: int = 0  #: 0 = a task for each ``part_bytes``


def stages_of(
    nodes: list[Node],
    part_bytes: int,
    rates: tuple[float | None, float | None] = (None, None),
    tasks_max: int = 1000,
) -> tuple[WorkStage, ...]:
    """The stages; one that fetches has a task for each ``part_bytes``, 1 to ``tasks_max``."""
    stages: list[WorkStage] = []
    for number, node in enumerate(nodes):
        input_bytes = sum(stages[read].output_bytes for read in node.reads)
        tasks = node.tasks or min(tasks_max, max(1, -(-input_bytes // part_bytes)))
        files: tuple[str, ...] = ()
        if node.file is not None:
            input_bytes, tasks, files = node.file.size_bytes, node.file.blocks, (node.file.path,)
        stages.append(
            WorkStage(
                name=stage_name(number),
                reads=tuple(stages[read].name for read in node.reads),
                files=files,
                tasks=tasks,
                output_bytes=round(input_bytes * node.selectivity),
                rate_bytes_per_s=rates[0] if files else rates[1],
            )
        )
    return tuple(stages)


def chain(selectivities: list[float], file: InputFile) -> list[Node]:
    """Stages in sequence; the first reads the file."""
    first, *others = selectivities
    return [
        Node((), first, file),
        *(Node((before,), each) for before, each in enumerate(others)),
    ]


def random_tree(rng: np.random.Generator, count: int) -> list[tuple[int, ...]]:
    """What each of ``count`` stages reads: nothing yet, or one or two that nobody reads yet.

    The last one reads all that are left, so that it is one job.
    """
    unread: list[int] = []
    reads: list[tuple[int, ...]] = []
    for number in range(count):
        last = number == count - 1
        wanted = 0 if not unread else len(unread) if last else int(rng.integers(0, 3))
        taken = tuple(unread[-wanted:]) if wanted else ()
        unread = [*unread[: len(unread) - len(taken)], number]
        reads.append(taken)
    return reads
