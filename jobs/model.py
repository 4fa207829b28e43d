"""The job API: ``Job``, its parameters and stages, the checks of all, and ``run_task``.

Most jobs are a class in a file of its own:

    from railyard import Job, Lines

    class LongWords(Job):
        "Counts the words of at least `min_letters` letters."
        input = Lines()
        min_letters: int = 8                    # railyard run long_words.py --param min_letters=10

        def map(self, line: str):
            for word in line.split():
                if len(word) >= self.min_letters:
                    yield word, 1

        def reduce(self, word, counts):
            yield word, sum(counts)

        combine = reduce                        # optional: runs on each map's output as well

        def partition(self, key, partitions):   # optional: 0 to partitions - 1
            return len(key) % partitions

Parameters are the annotated attributes; one without a default must be given.  ``map`` gets a record
of ``input``; without ``reduce`` its pairs are the output.  In place of a class, a module may define
functions ``map`` and ``reduce``; its annotated variables are then the parameters.  A job with more
stages overrides ``stages``; those that read files may name inputs:

    class Join(Job):
        def stages(self):
            return (
                Stage("o", Map(self.order), inputs=("orders",)),
                Stage("c", Map(self.customer), inputs=("customers",)),
                Stage("r", Reduce(self.pair), reads=("o", "c")),
            )

    railyard run join.py --input orders=o.csv --input customers=c.csv

Never here: processes, sockets and files; those are behind ``TaskIO``.
"""

from __future__ import annotations

import difflib
import inspect
import re
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, ClassVar

import msgspec

from railyard.cluster.errors import COUNT_MAX, UsageError, require, unknown_name
from railyard.cluster.ids import STAGE_NAME
from railyard.cluster.messages import TaskSpec
from railyard.cluster.messaging.wire import Few, Name, Tasks
from railyard.jobs.formats import InputFormat, Lines
from railyard.jobs.operators import Map, Pairs, Reduce, partition_by_hash
from railyard.jobs.taskio import Counters, Operator, TaskIO, TaskResult

ParamValue = str | int | float | bool | bytes | list[bytes]

_KINDS: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    bytes: "bytes",
    list[bytes]: "a list of bytes",
}
_MISSING = object()


@dataclass(frozen=True)
class Param:
    """One parameter of a job."""

    name: str
    kind: Any  #: one of the types of ``ParamValue``
    default: Any = _MISSING

    @property
    def required(self) -> bool:
        return self.default is _MISSING

    def read(self, value: Any, job: str) -> ParamValue:
        """Convert ``value``, which may be text, to the parameter's type; or ``UsageError``."""
        if isinstance(value, str) and self.kind is bytes:
            return value.encode()
        if isinstance(value, str) and self.kind == list[bytes]:
            return [part.encode() for part in value.split(",")]
        try:
            read: ParamValue = msgspec.convert(value, self.kind, strict=not isinstance(value, str))
        except msgspec.ValidationError:
            raise UsageError(f"{job}: {self.name} = {value!r}: need {_KINDS[self.kind]}") from None
        return read


def params_of(job: type) -> dict[str, Param]:
    """{Name: parameter} of a job class, those of its base classes first.

    Raises ``UsageError`` for a parameter of a type that cannot be shipped.
    """
    try:
        hints = typing.get_type_hints(job)
    except (NameError, TypeError, SyntaxError) as error:
        raise UsageError(f"{job.__name__}: its annotations cannot be read: {error}") from None
    params = {}
    for name, kind in hints.items():
        if typing.get_origin(kind) is ClassVar or name == "input" or name.startswith("_"):
            continue
        default = getattr(job, name, _MISSING)
        if callable(default):
            raise UsageError(f"{job.__name__}: parameter {name} has a method's name: need another")
        if kind not in _KINDS:
            shown = getattr(kind, "__name__", kind)
            right = "str, int, float, bool, bytes or list[bytes]"
            raise UsageError(f"{job.__name__}: parameter {name} is a {shown}: need {right}")
        params[name] = Param(name, kind, default)
    return params


def read_params(job: type, given: Mapping[str, Any]) -> dict[str, ParamValue]:
    """The values of all parameters of a job: the given ones, converted, and the defaults.

    Raises ``UsageError`` for an unknown parameter, a wrong value or a missing one.
    """
    params, label = params_of(job), job.__name__
    for name in given:
        if name not in params:
            raise unknown_name(f"parameter of {label}", name, params)
    for param in params.values():
        if param.required and param.name not in given:
            need = _KINDS[param.kind]
            raise UsageError(f"{label}: parameter {param.name} is missing: need {need}")
    return {
        name: param.read(given.get(name, param.default), label) for name, param in params.items()
    }


INPUT_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")  #: of one of a job's inputs
TASKS_MAX = COUNT_MAX  #: of a stage
REDUCES_MAX = 100_000  #: of a real job: more would take too long on a laptop's slots

_AT_THE_END = "nothing is called at a task's end: yield from map or reduce as you go"
_WITHIN_A_JOB = "need map, combine and reduce; a job of several steps has stages()"
_SETTINGS = "need annotated fields, which are parameters"
_ORDER = "keys are not sorted for a reduce, and values come in any order: sort them in it"
#: {what other frameworks call and nobody here does, as ``_plain`` has it: what to do instead}
_NO_HOOKS = {
    **dict.fromkeys(("cleanup", "close", "finish", "finalize", "teardown"), _AT_THE_END),
    **dict.fromkeys(("mapperfinal", "reducerfinal", "combinerfinal"), _AT_THE_END),
    **dict.fromkeys(("mapcleanup", "reducecleanup"), _AT_THE_END),
    **dict.fromkeys(("mapper", "reducer", "combiner", "steps", "run"), _WITHIN_A_JOB),
    **dict.fromkeys(("mapperraw", "mappercmd", "reducercmd", "combinercmd"), _WITHIN_A_JOB),
    **dict.fromkeys(("configure", "configureargs", "loadargs", "jobconf"), _SETTINGS),
    **dict.fromkeys(("configureoptions", "loadoptions", "addpassthruarg"), _SETTINGS),
    **dict.fromkeys(("mapperinit", "reducerinit", "combinerinit"), "need setup()"),
    **dict.fromkeys(("init", "initialize", "mapsetup", "reducesetup"), "need setup()"),
    **dict.fromkeys(("partitioner", "getpartition"), "need partition(key, partitions)"),
    **dict.fromkeys(("sort", "sortvalues", "sortkey", "compare", "group"), _ORDER),
    **dict.fromkeys(("inputprotocol", "hadoopinputformat"), "need input = Lines() or another"),
    **dict.fromkeys(
        ("outputprotocol", "internalprotocol", "hadoopoutputformat"),
        "a reduce yields pairs, which are written as key<TAB>value",
    ),
}
_LIKENESS = 0.87  #: from which on a method is taken for a slip of ``setup`` or the like


class StageSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stage as the ResourceManager knows it: its name, its inputs, its tasks, but no code."""

    name: Name  #: small letters only: "m" and "r" in plain MapReduce
    #: stages from which its tasks fetch; () = it reads the job's files
    reads: Few[Name] = ()
    tasks: Tasks = 0  #: 0 = one for each split of the files that it reads
    #: names of the job's inputs that it reads; () = all of its files, which have no names
    inputs: Few[Name] = ()
    max_attempts: Tasks = 0  #: failures of one of its tasks that end the job; 0 = the job's
    may_copy: bool = True  #: whether schedulers may run two attempts of one of its tasks at once

    @property
    def reads_files(self) -> bool:
        return not self.reads and not self.tasks


@dataclass(frozen=True)
class Stage:
    """A stage as a job defines it, with its operator."""

    name: str  #: small letters only
    operator: Operator
    reads: tuple[str, ...] = ()  #: names of earlier stages; () = it reads the job's files
    #: number of tasks; None = one per split if it reads files, else the submission's ``reduces``
    tasks: int | None = None
    #: names of the job's inputs that it reads, such as ("orders",); () = its files have no names
    inputs: tuple[str, ...] = ()

    def spec(self, reduces: int) -> StageSpec:
        """The stage without its operator; ``reduces`` is the number given at submission."""
        tasks = self.tasks
        if tasks is None:
            tasks = reduces if self.reads else 0
        return StageSpec(
            name=self.name, reads=tuple(self.reads), tasks=tasks, inputs=tuple(self.inputs)
        )


class Job:
    """Base class of all jobs; see the top of this file.

    The constructor raises ``UsageError`` for unknown, missing or wrong parameters.
    """

    input: ClassVar[InputFormat] = Lines()  #: how the job's files are read as records

    def __init__(self, **params: Any) -> None:
        self.counters: dict[str, int] = {}  #: {counter: count} of the current task
        own = [kind for kind in reversed(type(self).__mro__) if kind not in Job.__mro__]
        members = {name: member for kind in own for name, member in vars(kind).items()}
        require_known_hooks(members, type(self).__name__)
        for name, value in read_params(type(self), params).items():
            setattr(self, name, value)
        try:
            self.setup()
        except (ValueError, TypeError) as error:
            raise UsageError(f"{type(self).__name__}: {error}") from error

    def setup(self) -> None:
        """Check the parameters and prepare; raise ``ValueError`` if they are wrong.

        Called once in every process that runs tasks of the job.
        """

    def map(self, record: Any) -> Pairs | None:
        """Yield (key, value) pairs for one record."""
        raise NotImplementedError

    def combine(self, key: Any, values: Iterable[Any]) -> Pairs | None:
        """Yield pairs that replace those of a key and some of its values, preferably fewer."""
        raise NotImplementedError

    def reduce(self, key: Any, values: Iterable[Any]) -> Pairs | None:
        """Yield the output for a key and all its values, an iterator in any order."""
        raise NotImplementedError

    def partition(self, key: Any, partitions: int) -> int:
        """The reduce that gets a key: 0 to ``partitions`` - 1, the same in every process."""
        return partition_by_hash(key, partitions)

    def count(self, name: str, by: int = 1) -> None:
        """Add to the job's counter ``name``, which is shown when the job has ended.

        A counter is a whole number from -2^63 to 2^63 - 1, also as the sum over all tasks.
        """
        self.counters[name] = self.counters.get(name, 0) + by

    def stages(self) -> tuple[Stage, ...]:
        """The job's stages, each after those that it reads."""
        if not self._defines("map"):
            raise UsageError(f"{type(self).__name__}: has no map: need map(record), or stages()")
        combine = self.combine if self._defines("combine") else None
        mapper = Map(self.map, self.input, combine=combine, partition=self.partition)
        if not self._defines("reduce"):
            return (Stage("m", mapper),)
        return (Stage("m", mapper), Stage("r", Reduce(self.reduce), reads=("m",)))

    def input_format(self, name: str) -> InputFormat:
        """How the job's input of that name is read as records: as the first stage does."""
        for stage in self.stages():
            if name in stage.inputs:
                form: InputFormat = getattr(stage.operator, "input", self.input)
                return form
        return self.input

    def stage(self, name: str) -> Stage:
        """The stage called ``name``; ``UsageError`` if there is none."""
        stages = {stage.name: stage for stage in self.stages()}
        if name not in stages:
            raise unknown_name(f"stage of {type(self).__name__}", name, stages)
        return stages[name]

    def stage_specs(self, reduces: int = 1) -> tuple[StageSpec, ...]:
        """The checked stages for a submission with ``reduces`` reduce tasks."""
        require(reduces >= 1, "reduces", reduces, "a whole number >= 1")
        specs = tuple(stage.spec(reduces) for stage in self.stages())
        check_stages(specs)
        return specs

    def _defines(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(Job, name)


def require_known_hooks(members: Mapping[str, Any], where: str) -> None:
    """Raise ``UsageError`` for what looks like a hook of a job, and nobody would ever call.

    ``members`` are a class's own, or the functions of a module.  What one of them names is called
    by the job itself, whatever it is called.
    """
    named = {name for member in members.values() for name in _names_in(_code_of(member))}
    ours = [name for name in vars(Job) if not name.startswith("_")]
    for name, member in members.items():
        if name in named or name in ours or name.startswith("_") or inspect.isclass(member):
            continue
        if instead := _NO_HOOKS.get(name.replace("_", "").casefold(), ""):
            raise UsageError(f"{where}: {name} would never be called: {instead}")
        near = difflib.get_close_matches(name.casefold(), ours, n=1, cutoff=_LIKENESS)
        if near and callable(member):
            raise UsageError(f'{where}: {name} would never be called: did you mean "{near[0]}"?')


def _code_of(member: Any) -> CodeType | None:
    function = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _names_in(code: CodeType | None) -> Iterator[str]:
    """The names that a function and those within it use."""
    if code is None:
        return
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in(inner)


def check_stages(stages: Sequence[StageSpec]) -> None:
    """Raise ``UsageError`` unless the stages form a graph that can be run.

    Names must be unique and of small letters, each stage may read earlier ones only, and those that
    fetch must have tasks.  All readers of a stage must have the same number of tasks, because its
    output is partitioned once.  Of two named inputs or more, each stage names its own.
    """
    if not stages:
        raise UsageError("a job has no stages: need at least one")
    seen: dict[str, StageSpec] = {}
    readers: dict[str, StageSpec] = {}
    for stage in stages:
        where = f'stage "{stage.name}"'
        if not STAGE_NAME.fullmatch(stage.name):
            raise UsageError(f"{where}: need a name of small letters only")
        if stage.name in seen:
            raise UsageError(f"{where}: there are two of that name")
        require(stage.tasks <= TASKS_MAX, f"{where}: tasks", stage.tasks, f"at most {TASKS_MAX}")
        if stage.tasks < 0 or (stage.reads and stage.tasks == 0):
            raise UsageError(f"{where}: tasks = {stage.tasks}: need a whole number >= 1")
        if len(set(stage.reads)) < len(stage.reads):
            raise UsageError(f"{where}: reads a stage twice: need each once")
        _check_inputs(stage, where)
        for name in stage.reads:
            if name not in seen:
                raise UsageError(f'{where}: reads "{name}": need a stage listed before it')
            other = readers.setdefault(name, stage)
            if other.tasks != stage.tasks:
                others = f'"{other.name}", which reads "{name}" as well, has {other.tasks}'
                raise UsageError(f"{where}: has {stage.tasks} tasks, but {others}: need as many")
        seen[stage.name] = stage
    check_input_names(stages, input_names(stages))


def input_names(stages: Sequence[StageSpec]) -> list[str]:
    """The names of the inputs that stages read, each once, in order; none = they have no names."""
    return list(dict.fromkeys(name for stage in stages for name in stage.inputs))


def check_input_names(stages: Sequence[StageSpec], names: Collection[str], where: str = "") -> None:
    """Raise ``UsageError`` unless stages read inputs that have these names, and all of them.

    A stage without names reads all files; but not where there are two names or more.
    """
    readers = [stage for stage in stages if stage.reads_files]
    for stage in readers:
        for name in stage.inputs:
            if name not in names:
                right = f'an input "{name}"'
                raise UsageError(f'{where}stage "{stage.name}" reads "{name}": need {right}')
        if not stage.inputs and len(names) > 1:
            shown = ", ".join(names)
            right = "need those that it reads"
            raise UsageError(f'{where}stage "{stage.name}" names no input, of {shown}: {right}')
    if all(stage.inputs for stage in readers):
        read = input_names(readers)
        for name in names:
            if name not in read:
                right = f"{', '.join(read)} only" if read else "none"
                raise UsageError(f'{where}no stage reads "{name}": need {right}')


def _check_inputs(stage: StageSpec, where: str) -> None:
    if stage.inputs and not stage.reads_files:
        other = "stages" if stage.reads else "nothing, with tasks of its own"
        raise UsageError(f"{where}: names inputs, and reads {other}: need one of the two")
    if len(set(stage.inputs)) < len(stage.inputs):
        raise UsageError(f"{where}: reads an input twice: need each once")
    for name in stage.inputs:
        if not INPUT_NAME.fullmatch(name):
            right = "a name of small letters, digits and _, such as orders"
            raise UsageError(f'{where}: input "{name}": need {right}')


def run_task(job: Job, task: TaskSpec, io: TaskIO) -> TaskResult:
    """Run ``task`` and return its result.

    Exceptions of the job's code are not caught, and may also be raised while a lazy output is read.
    Raises ``BadInput`` for a file that does not fit its format, and ``JobError`` for code that
    breaks a rule, such as a partition number out of range.
    """
    job.counters = counters = Counters()
    result = job.stage(task.stage).operator.run(task, io, counters)
    result.counters = counters
    return result
