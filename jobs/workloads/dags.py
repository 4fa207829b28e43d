"""Jobs of many stages: chains and trees, in which each stage is read by one other.

Since no stage has two readers, each has one number of partitions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from railyard.jobs.workloads.model import InputFile, WorkStage
from railyard.jobs.workloads.shapes import stage_name


class StageNode(NamedTuple):
    """A stage of the graph, before its sizes are known."""

    reads: tuple[int, ...]  #: numbers of earlier stages; () = it reads ``file``
    selectivity: float  #: output bytes / input bytes
    file: InputFile | None = None
    tasks: int = 0  #: 0 = one task for each ``part_bytes`` of input


def stages_of(
    nodes: list[StageNode],
    part_bytes: int,
    rates: tuple[float | None, float | None] = (None, None),
    tasks_max: int = 1000,
) -> tuple[WorkStage, ...]:
    """The stages with their bytes and tasks.

    A stage that fetches has a task for each ``part_bytes``, 1 to ``tasks_max``.  ``rates`` are the
    bytes/s of a task that reads a file, and of one that fetches; None = the topology's.
    """
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


def chain(selectivities: list[float], file: InputFile) -> list[StageNode]:
    """A sequence of stages with these selectivities; the first reads the file."""
    first, *others = selectivities
    return [
        StageNode((), first, file),
        *(StageNode((before,), each) for before, each in enumerate(others)),
    ]


def random_tree(rng: np.random.Generator, count: int) -> list[tuple[int, ...]]:
    """For each of ``count`` stages the earlier ones that it reads: none, or up to two unread ones.

    The last stage reads all that are still unread, so that the graph is connected.
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
