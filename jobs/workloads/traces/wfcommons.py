"""A WfCommons workflow as a job with a stage for each of its tasks.

Source: Coleman et al., FGCS 2022 (WfCommons); format: ``wfformat.py``.

Left open there, chosen here.  A stage has one output, which each of its readers fetches whole.  For
a task with children it is the mean of the bytes that they read from it, so that the total of all
bytes between tasks is right; otherwise it is the size of the task's files, and is stored.  Files
that no task writes are in the block store.  Those with the same readers are read by one stage,
which does not compute and passes them on.  A task computes for its traced time; if there are no
times, for its bytes at the topology's rate.  Cores and memory are not modelled: a task has a slot.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from railyard.cluster.errors import require, require_count
from railyard.cluster.tomlfile import Size
from railyard.jobs.workloads.model import (
    InputFile,
    Statistic,
    Workload,
    WorkloadJob,
    WorkStage,
    check_workload,
)
from railyard.jobs.workloads.population import Arrivals, Population, Shape, populate
from railyard.jobs.workloads.shapes import stage_name
from railyard.jobs.workloads.statistics import statistic
from railyard.jobs.workloads.traces.wfformat import Workflow, load_wfformat


class WfCommonsOptions(Population, frozen=True, kw_only=True):
    """The workflow runs once by default."""

    jobs: int = 1  #: runs of the workflow
    block: Size = 256_000_000  #: of the input files
    arrivals: Arrivals = "batch"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("jobs", self.jobs)
        require(self.block >= 1, "block", self.block, "a size above 0")


def wfcommons(path: Path, options: WfCommonsOptions, seed: int) -> Workload:
    """Runs of a workflow, which share its input files."""
    workflow = load_wfformat(path)
    stages, files = _stages(workflow, options.block)
    name = re.sub(r"[^\w.-]+", "_", workflow.name)
    shapes = [Shape(f"{name}-{number}", stages, files) for number in range(options.jobs)]
    jobs = populate(shapes, options, seed)
    check_workload(jobs)
    return Workload(
        name=workflow.name,
        source=f"WfCommons, {path.name}",
        jobs=jobs,
        statistics=_statistics(workflow, jobs[0]),
    )


def _stages(
    workflow: Workflow, block_bytes: int
) -> tuple[tuple[WorkStage, ...], tuple[InputFile, ...]]:
    """Stages that pass on input files, then one stage for each task."""
    sources = _sources(workflow)
    files: list[InputFile] = []
    stages: list[WorkStage] = []
    names: dict[str, str] = {}  #: {task: its stage}
    #: {task: stages of its input files}
    fed: dict[str, list[str]] = {task.id: [] for task in workflow.tasks}
    for readers, read in sources.items():
        inputs = [
            InputFile(
                path=f"/workload/input-{number}",  # ids may be URLs and the like
                size_bytes=workflow.sizes_bytes[file],
                block_bytes=block_bytes,
            )
            for number, file in enumerate(read, start=len(files))
        ]
        name = stage_name(len(stages))
        files += inputs
        for reader in readers:
            fed[reader].append(name)
        stages.append(
            WorkStage(
                name=name,
                files=tuple(file.path for file in inputs),
                tasks=sum(file.blocks for file in inputs),
                output_bytes=sum(file.size_bytes for file in inputs),
                rate_bytes_per_s=math.inf,
            )
        )
    outputs = _outputs(workflow)
    for task in workflow.tasks:
        names[task.id] = stage_name(len(stages))
        stages.append(
            WorkStage(
                name=names[task.id],
                reads=(*fed[task.id], *(names[parent] for parent in task.parents)),
                tasks=1,
                output_bytes=outputs[task.id],
                task_s=task.runtime_s or 0.0,
                rate_bytes_per_s=None if task.runtime_s is None else math.inf,
            )
        )
    return tuple(stages), tuple(files)


def _sources(workflow: Workflow) -> dict[tuple[str, ...], list[str]]:
    """{Tasks that read the same input files: these files}, without files of 0 bytes."""
    written = {file for task in workflow.tasks for file in task.outputs}
    readers: dict[str, list[str]] = {}
    for task in workflow.tasks:
        for file in task.inputs:
            if file not in written and workflow.sizes_bytes[file]:
                readers.setdefault(file, []).append(task.id)
    together: dict[tuple[str, ...], list[str]] = {}
    for file, by in readers.items():
        together.setdefault(tuple(by), []).append(file)
    return together


def _edges(workflow: Workflow) -> dict[str, list[int]]:
    """{Task: bytes that each of its children reads from it}."""
    outputs = {task.id: set(task.outputs) for task in workflow.tasks}
    edges: dict[str, list[int]] = {task.id: [] for task in workflow.tasks}
    for task in workflow.tasks:
        for parent in task.parents:
            read = [workflow.sizes_bytes[file] for file in task.inputs if file in outputs[parent]]
            edges[parent].append(sum(read))
    return edges


def _outputs(workflow: Workflow) -> dict[str, int]:
    edges = _edges(workflow)
    return {
        task.id: round(sum(edges[task.id]) / len(edges[task.id]))
        if edges[task.id]
        else sum(workflow.sizes_bytes[file] for file in task.outputs)
        for task in workflow.tasks
    }


def _statistics(workflow: Workflow, job: WorkloadJob) -> tuple[Statistic, ...]:
    between = sum(sum(edges) for edges in _edges(workflow).values())
    sent_on = {stage.name for stage in job.stages if stage.files}
    sizes = {stage.name: stage.output_bytes for stage in job.stages}
    fetched = sum(
        sizes[read] for stage in job.stages for read in stage.reads if read not in sent_on
    )
    worked_s = sum(task.runtime_s or 0.0 for task in workflow.tasks)
    rounding = len(workflow.tasks) / between if between else 0.0
    apart = sum(
        abs(edge - sum(edges) / len(edges)) for edges in _edges(workflow).values() for edge in edges
    )
    statistics = [
        statistic("tasks of the workflow", "", len(workflow.tasks)),
        statistic("bytes between tasks", "bytes", fetched, between, rounding, "the file"),
        statistic("of these, fetched by another child", "share", apart / 2 / (between or 1)),
        statistic("time of all tasks", "s", worked_s),
    ]
    if workflow.makespan_s is not None:
        statistics.append(statistic("makespan as traced", "s", workflow.makespan_s))
    return tuple(statistics)
