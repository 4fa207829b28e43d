"""A WfCommons workflow as a job: a stage for each of its tasks.

Source: Coleman et al., FGCS 2022 (WfCommons); format: ``wfformat.py``.

Left open there, chosen here.  A stage has one output, which each of its readers fetches whole; a
task's is the mean of what its children read of it, so that the bytes between tasks are right in
total; without children, it is what the task writes, and it is stored.  Files that no task writes
are in the block store; a stage without computing reads those that the same tasks read, and sends
them on.  A task takes its traced time besides fetching; without times, its bytes at the topology's
rate.  Cores and memory are not modelled: a task has a slot.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from railyard.cluster.errors import require, require_count
from railyard.cluster.tomlfile import Size
from railyard.jobs.workloads.figures import figure
from railyard.jobs.workloads.model import (
    Figure,
    InputFile,
    Workload,
    WorkloadJob,
    WorkStage,
    check_workload,
)
from railyard.jobs.workloads.population import Arrivals, Population, Shape, populate
from railyard.jobs.workloads.shapes import stage_name
from railyard.jobs.workloads.traces.wfformat import Flow, load_wfformat


class WfCommonsOptions(Population, frozen=True, kw_only=True):
    """The workflow once, or several times."""

    jobs: int = 1
    block: Size = 256_000_000
    arrivals: Arrivals = "batch"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("jobs", self.jobs)
        require(self.block >= 1, "block", self.block, "a size above 0")


def wfcommons(path: Path, options: WfCommonsOptions, seed: int) -> Workload:
    """A workflow's runs, which share its input files."""
    flow = load_wfformat(path)
    stages, files = _stages(flow, options.block)
    name = re.sub(r"[^\w.-]+", "_", flow.name)
    shapes = [Shape(f"{name}-{number}", stages, files) for number in range(options.jobs)]
    jobs = populate(shapes, options, seed)
    check_workload(jobs)
    return Workload(
        name=flow.name,
        source=f"WfCommons, {path.name}",
        jobs=jobs,
        figures=_figures(flow, jobs[0]),
    )


def _stages(flow: Flow, block_bytes: int) -> tuple[tuple[WorkStage, ...], tuple[InputFile, ...]]:
    """Stages that send inputs on, then one for each task."""
    sources = _sources(flow)
    files: list[InputFile] = []
    stages: list[WorkStage] = []
    names: dict[str, str] = {}  #: task -> stage
    fed: dict[str, list[str]] = {task.id: [] for task in flow.tasks}  #: task -> its sources
    for readers, read in sources.items():
        inputs = [
            InputFile(
                path=f"/workload/input-{number}",  # ids may be URLs and the like
                size_bytes=flow.sizes_bytes[file],
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
    outputs = _outputs(flow)
    for task in flow.tasks:
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


def _sources(flow: Flow) -> dict[tuple[str, ...], list[str]]:
    """The tasks that read the same inputs of the workflow -> those inputs; none of 0 bytes."""
    written = {file for task in flow.tasks for file in task.outputs}
    readers: dict[str, list[str]] = {}
    for task in flow.tasks:
        for file in task.inputs:
            if file not in written and flow.sizes_bytes[file]:
                readers.setdefault(file, []).append(task.id)
    together: dict[tuple[str, ...], list[str]] = {}
    for file, by in readers.items():
        together.setdefault(tuple(by), []).append(file)
    return together


def _edges(flow: Flow) -> dict[str, list[int]]:
    """What each child of a task reads of it, in bytes."""
    outputs = {task.id: set(task.outputs) for task in flow.tasks}
    edges: dict[str, list[int]] = {task.id: [] for task in flow.tasks}
    for task in flow.tasks:
        for parent in task.parents:
            read = [flow.sizes_bytes[file] for file in task.inputs if file in outputs[parent]]
            edges[parent].append(sum(read))
    return edges


def _outputs(flow: Flow) -> dict[str, int]:
    edges = _edges(flow)
    return {
        task.id: round(sum(edges[task.id]) / len(edges[task.id]))
        if edges[task.id]
        else sum(flow.sizes_bytes[file] for file in task.outputs)
        for task in flow.tasks
    }


def _figures(flow: Flow, job: WorkloadJob) -> tuple[Figure, ...]:
    between = sum(sum(edges) for edges in _edges(flow).values())
    sent_on = {stage.name for stage in job.stages if stage.files}
    sizes = {stage.name: stage.output_bytes for stage in job.stages}
    fetched = sum(
        sizes[read] for stage in job.stages for read in stage.reads if read not in sent_on
    )
    worked_s = sum(task.runtime_s or 0.0 for task in flow.tasks)
    rounding = len(flow.tasks) / between if between else 0.0
    figures = [
        figure("tasks of the workflow", "", len(flow.tasks)),
        figure("bytes between tasks", "bytes", fetched, between, rounding, "the file"),
        figure("time of all tasks", "s", worked_s),
    ]
    if flow.makespan_s is not None:
        figures.append(figure("makespan as traced", "s", flow.makespan_s))
    return tuple(figures)
