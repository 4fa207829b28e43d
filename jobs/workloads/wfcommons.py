"""WfCommons: scientific workflows in WfFormat, JSON, as jobs with a stage for each task.

Source: Coleman et al., FGCS 2022, and wfcommons/WfFormat on GitHub.  Schemas 1.5 and 1.6 have
``workflow.specification`` (tasks, files) and ``workflow.execution`` (times).  Up to 1.4, each task
under ``workflow.tasks`` has its own files, with a ``link``, and its runtime.  Parents are given by
id or, in older files, by name.

Left open there, chosen here.  A stage has one output, which each of its readers fetches whole.  For
a task with children it is the mean of the bytes that they read from it, so that the total of all
bytes between tasks is right; otherwise it is the size of the task's files, and is stored.  Files
that no task writes are in the block store.  Those with the same readers are read by one stage,
which does not compute and passes them on.  A task computes for its traced time; if there are no
times, for its bytes at the topology's rate.  Cores and memory are not modelled: a task has a slot.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec

from railyard.cluster.errors import UsageError
from railyard.cluster.inputfile import Size
from railyard.cluster.units import DURATION_S_MAX, SIZE_BYTES_MAX
from railyard.jobs.workloads.model import InputFile, Statistic, Workload, WorkloadJob, WorkStage
from railyard.jobs.workloads.population import Arrivals, Population, Shape, populate
from railyard.jobs.workloads.shapes import stage_name
from railyard.jobs.workloads.statistics import statistic
from railyard.jobs.workloads.tracefiles import read_of_format


class WorkflowTask(NamedTuple):
    """A task of a workflow."""

    id: str
    parents: tuple[str, ...]  #: ids, in the order of the file
    runtime_s: float | None  #: None = the file has no times
    inputs: tuple[str, ...]  #: file ids
    outputs: tuple[str, ...]


class Workflow(NamedTuple):
    """A workflow: tasks, each after its parents, and {file: bytes}."""

    name: str
    tasks: tuple[WorkflowTask, ...]
    sizes_bytes: dict[str, int]
    makespan_s: float | None


class _FileRef(msgspec.Struct):
    """A file of a task up to schema 1.4."""

    link: str
    name: str = ""
    id: str = ""
    size_in_bytes: float | None = msgspec.field(name="sizeInBytes", default=None)
    size: float | None = None


class _Task(msgspec.Struct):
    """A task, in any schema."""

    name: str = ""
    id: str = ""
    parents: list[str] = []
    children: list[str] = []
    input_files: list[str] = msgspec.field(name="inputFiles", default_factory=list)
    output_files: list[str] = msgspec.field(name="outputFiles", default_factory=list)
    files: list[_FileRef] = []
    runtime_s: float | None = msgspec.field(name="runtimeInSeconds", default=None)
    runtime: float | None = None


class _File(msgspec.Struct):
    id: str
    size_in_bytes: float = msgspec.field(name="sizeInBytes")


class _Specification(msgspec.Struct):
    tasks: list[_Task]
    files: list[_File] = []


class _Ran(msgspec.Struct):
    id: str
    runtime_s: float = msgspec.field(name="runtimeInSeconds")


class _Execution(msgspec.Struct):
    tasks: list[_Ran] = []
    makespan_s: float | None = msgspec.field(name="makespanInSeconds", default=None)


class _Workflow(msgspec.Struct):
    specification: _Specification | None = None
    execution: _Execution | None = None
    tasks: list[_Task] = []
    jobs: list[_Task] = []  # the name of ``tasks`` up to schema 1.2
    makespan_s: float | None = msgspec.field(name="makespanInSeconds", default=None)


class _Instance(msgspec.Struct):
    workflow: _Workflow
    name: str = "workflow"


def load_wfformat(path: Path) -> Workflow:
    """Read a workflow; raises a one-line ``UsageError`` that starts with the file's name."""
    data = read_of_format(path, "wfcommons")
    try:
        instance = msgspec.json.decode(data, type=_Instance)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: is no WfFormat: {error}".replace("`", "")) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UsageError(f"{path}{_place(data)}: is no JSON") from None
    except RecursionError:
        raise UsageError(f"{path}: its lists and objects are nested too deeply") from None
    try:
        return _flow(instance)
    except UsageError as error:  # names in the file may have newlines
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from None


def _place(data: bytes) -> str:
    """The line of the first JSON error as ":line"; "" if it is not known."""
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return f":{error.lineno}"
    except ValueError:  # it is no text
        pass
    return ""


def _flow(instance: _Instance) -> Workflow:
    workflow, specified = instance.workflow, instance.workflow.specification
    listed = specified.tasks if specified else workflow.tasks or workflow.jobs
    if not listed:
        right = "workflow.specification.tasks (or workflow.tasks, up to schema 1.4)"
        raise UsageError(f"has no tasks: need {right}")
    ids = _ids(listed)
    files = specified.files if specified else []
    sizes = {file.id: _size(file.size_in_bytes, file.id) for file in files}
    for task in listed:
        for ref in task.files:
            size = ref.size if ref.size_in_bytes is None else ref.size_in_bytes
            name = ref.id or ref.name
            sizes.setdefault(name, _size(size or 0.0, name))
    execution = workflow.execution
    times_s: dict[str, float] = {}
    for ran in execution.tasks if execution else ():
        if ran.id not in ids:
            raise UsageError(f'execution: task "{ran.id}" does not exist: need the id of a task')
        times_s[ids[ran.id]] = ran.runtime_s
    tasks = {task.id: task for task in _tasks(listed, ids, times_s)}
    for made in tasks.values():
        for name in (*made.inputs, *made.outputs):
            if name not in sizes:
                right = "need it among the files"
                raise UsageError(f'task {made.id}: file "{name}" has no size: {right}')
    makespan_s = execution.makespan_s if execution else workflow.makespan_s
    return Workflow(instance.name, tuple(_in_order(tasks)), sizes, makespan_s)


def _ids(listed: list[_Task]) -> dict[str, str]:
    """{Id or unique name of a task: its id}."""
    ids: dict[str, str] = {}
    for number, task in enumerate(listed):
        own = task.id or task.name
        if not own:
            raise UsageError(f"task {number}: has neither id nor name: need one")
        if own in ids:
            raise UsageError(f"task {own}: there are two of that id: need one each")
        ids[own] = own
    times = Counter(task.name for task in listed)
    for task in listed:
        if task.name and times[task.name] == 1:
            ids.setdefault(task.name, task.id)
    return ids


def _tasks(
    listed: list[_Task], ids: dict[str, str], times_s: dict[str, float]
) -> list[WorkflowTask]:
    by_id = {ids[task.id or task.name]: task for task in listed}
    inputs = {own: _links(task, task.input_files, "input") for own, task in by_id.items()}
    outputs = {own: _links(task, task.output_files, "output") for own, task in by_id.items()}
    parents: dict[str, dict[str, None]] = {own: {} for own in by_id}
    for own, task in by_id.items():
        for name in task.parents:
            parents[own][_known(name, ids, own, "parent")] = None
        for name in task.children:
            parents[_known(name, ids, own, "child")][own] = None
    times = Counter(file for files in outputs.values() for file in files)
    #: {file: the task that writes it, alone}; of other files, the workflow must list the parents
    makers = {file: own for own, files in outputs.items() for file in files if times[file] == 1}
    for own, files in inputs.items():
        for file in files:
            if makers.get(file, own) != own:
                parents[own][makers[file]] = None
    made = []
    for own, task in by_id.items():
        runtime_s = times_s.get(own, task.runtime if task.runtime_s is None else task.runtime_s)
        if runtime_s is not None and not 0 <= runtime_s <= DURATION_S_MAX:
            raise UsageError(f"task {own}: runtime = {runtime_s}: need seconds >= 0, at most 10**9")
        made.append(WorkflowTask(own, tuple(parents[own]), runtime_s, inputs[own], outputs[own]))
    return made


def _links(task: _Task, listed: list[str], link: str) -> tuple[str, ...]:
    """The files of a task with this link, "input" or "output", each once."""
    old = [ref.id or ref.name for ref in task.files if ref.link == link]
    return tuple(dict.fromkeys([*listed, *old]))


def _size(size: float, file: str) -> int:
    if not 0 <= size <= SIZE_BYTES_MAX:
        raise UsageError(f'file "{file}": size = {size}: need bytes >= 0, at most 10**18')
    return round(size)


def _known(name: str, ids: dict[str, str], own: str, kind: str) -> str:
    if name not in ids:
        raise UsageError(f'task {own}: {kind} "{name}" does not exist: need the id of a task')
    return ids[name]


def _in_order(tasks: dict[str, WorkflowTask]) -> Iterable[WorkflowTask]:
    """The tasks sorted so that each comes after its parents."""
    graph = TopologicalSorter({task.id: task.parents for task in tasks.values()})
    try:
        return [tasks[own] for own in graph.static_order()]
    except CycleError as error:
        around = f"{' -> '.join(error.args[1])}: need a graph without cycles"
        raise UsageError(f"tasks wait for one another: {around}") from None


class WfCommonsOptions(Population, frozen=True, kw_only=True):
    """The workflow runs once by default."""

    COUNTS: ClassVar = {"jobs": 1}
    SIZES: ClassVar = ("block",)

    jobs: int = 1  #: runs of the workflow
    block: Size = 256_000_000  #: of the input files
    arrivals: Arrivals = "batch"


def wfcommons(path: Path, options: WfCommonsOptions, seed: int) -> Workload:
    """A scientific workflow in WfFormat: a stage for each task."""
    workflow = load_wfformat(path)
    stages, files = _stages(workflow, options.block)
    name = re.sub(r"[^\w.-]+", "_", workflow.name)
    shapes = [Shape(f"{name}-{number}", stages, files) for number in range(options.jobs)]
    jobs = populate(shapes, options, seed)
    return Workload(name=workflow.name, jobs=jobs, statistics=_statistics(workflow, jobs[0]))


def _stages(
    workflow: Workflow, block_bytes: int
) -> tuple[tuple[WorkStage, ...], tuple[InputFile, ...]]:
    """Stages that pass on input files, then one stage for each task."""
    files: list[InputFile] = []
    stages: list[WorkStage] = []
    names: dict[str, str] = {}  #: {task: its stage}
    #: {task: stages of its input files}
    fed: dict[str, list[str]] = {task.id: [] for task in workflow.tasks}
    for readers, read in _sources(workflow).items():
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
    edges = _edges(workflow)
    for task in workflow.tasks:
        names[task.id] = stage_name(len(stages))
        read_bytes = edges[task.id]
        stages.append(
            WorkStage(
                name=names[task.id],
                reads=(*fed[task.id], *(names[parent] for parent in task.parents)),
                tasks=1,
                output_bytes=round(sum(read_bytes) / len(read_bytes))
                if read_bytes
                else sum(workflow.sizes_bytes[file] for file in task.outputs),
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


def _statistics(workflow: Workflow, job: WorkloadJob) -> tuple[Statistic, ...]:
    between_tasks = _edges(workflow).values()
    between = sum(map(sum, between_tasks))
    sent_on = {stage.name for stage in job.stages if stage.files}
    sizes = {stage.name: stage.output_bytes for stage in job.stages}
    fetched = sum(
        sizes[read] for stage in job.stages for read in stage.reads if read not in sent_on
    )
    worked_s = sum(task.runtime_s or 0.0 for task in workflow.tasks)
    rounding = len(workflow.tasks) / between if between else 0.0
    apart = sum(abs(edge - sum(edges) / len(edges)) for edges in between_tasks for edge in edges)
    statistics = [
        statistic("tasks of the workflow", "", len(workflow.tasks)),
        statistic("bytes between tasks", "bytes", fetched, between, rounding, "the file"),
        statistic("of these, fetched by another child", "share", apart / 2 / (between or 1)),
        statistic("time of all tasks", "s", worked_s),
    ]
    if workflow.makespan_s is not None:
        statistics.append(statistic("makespan as traced", "s", workflow.makespan_s))
    return tuple(statistics)
