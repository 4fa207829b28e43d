"""Reads WfFormat, the JSON format of WfCommons for scientific workflows.

Schemas 1.5 and 1.6 have ``workflow.specification`` (tasks, files) and ``workflow.execution``
(times).  Up to 1.4, each task under ``workflow.tasks`` has its own files, with a ``link``, and its
runtime.  Parents are given by id or, in older files, by name.  Source: wfcommons/WfFormat on
GitHub.

Never here: the conversion to a workload.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import msgspec

from railyard.cluster.errors import UsageError
from railyard.cluster.units import DURATION_S_MAX, SIZE_BYTES_MAX
from railyard.jobs.workloads.traces.files import read_of_format


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
    except ValueError:
        return ""
    return ""


def _flow(instance: _Instance) -> Workflow:
    workflow = instance.workflow
    listed = (
        workflow.specification.tasks if workflow.specification else workflow.tasks or workflow.jobs
    )
    if not listed:
        right = "workflow.specification.tasks (or workflow.tasks, up to schema 1.4)"
        raise UsageError(f"has no tasks: need {right}")
    ids = _ids(listed)
    files = workflow.specification.files if workflow.specification else []
    sizes: dict[str, int] = {}
    for file in files:
        sizes[file.id] = _size(file.size_in_bytes, file.id)
    for task in listed:
        for ref in task.files:
            size = ref.size if ref.size_in_bytes is None else ref.size_in_bytes
            sizes.setdefault(_file_id(ref), _size(size or 0.0, _file_id(ref)))
    times_s = _times(workflow.execution, ids)
    tasks = {task.id: task for task in _tasks(listed, ids, times_s)}
    for made in tasks.values():
        for name in (*made.inputs, *made.outputs):
            if name not in sizes:
                right = "need it among the files"
                raise UsageError(f'task {made.id}: file "{name}" has no size: {right}')
    execution = workflow.execution
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
    makers = _makers(outputs)
    for own, files in inputs.items():
        for file in files:
            if makers.get(file, own) != own:
                parents[own][makers[file]] = None
    return [
        WorkflowTask(
            own, tuple(parents[own]), _runtime_s(own, task, times_s), inputs[own], outputs[own]
        )
        for own, task in by_id.items()
    ]


def _makers(outputs: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """{File: the task that writes it}, for files with a single writer.

    For the readers of other files, the file must list the parents.
    """
    times = Counter(file for files in outputs.values() for file in files)
    return {file: own for own, files in outputs.items() for file in files if times[file] == 1}


def _runtime_s(own: str, task: _Task, times_s: dict[str, float]) -> float | None:
    runtime_s = times_s.get(own, task.runtime if task.runtime_s is None else task.runtime_s)
    if runtime_s is not None and not 0 <= runtime_s <= DURATION_S_MAX:
        raise UsageError(f"task {own}: runtime = {runtime_s}: need seconds >= 0, at most 10**9")
    return runtime_s


def _links(task: _Task, listed: list[str], link: str) -> tuple[str, ...]:
    """The files of a task with this link, "input" or "output", each once."""
    old = [_file_id(ref) for ref in task.files if ref.link == link]
    return tuple(dict.fromkeys([*listed, *old]))


def _file_id(ref: _FileRef) -> str:
    return ref.id or ref.name


def _size(size: float, file: str) -> int:
    if not 0 <= size <= SIZE_BYTES_MAX:
        raise UsageError(f'file "{file}": size = {size}: need bytes >= 0, at most 10**18')
    return round(size)


def _known(name: str, ids: dict[str, str], own: str, kind: str) -> str:
    if name not in ids:
        raise UsageError(f'task {own}: {kind} "{name}" does not exist: need the id of a task')
    return ids[name]


def _times(execution: _Execution | None, ids: dict[str, str]) -> dict[str, float]:
    times_s: dict[str, float] = {}
    for ran in execution.tasks if execution else ():
        if ran.id not in ids:
            raise UsageError(f'execution: task "{ran.id}" does not exist: need the id of a task')
        times_s[ids[ran.id]] = ran.runtime_s
    return times_s


def _in_order(tasks: dict[str, WorkflowTask]) -> Iterable[WorkflowTask]:
    """The tasks sorted so that each comes after its parents."""
    graph = TopologicalSorter({task.id: task.parents for task in tasks.values()})
    try:
        return [tasks[own] for own in graph.static_order()]
    except CycleError as error:
        around = " -> ".join(error.args[1])
        raise UsageError(
            f"tasks wait for one another: {around}: need a graph without cycles"
        ) from None
