"""How a job is written.

The usual job is a class in a file of its own:

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

``map`` gets a record of ``input``; without ``reduce`` its pairs are the output.  Functions called
``map`` and ``reduce`` in a module do as well (its annotated variables are the parameters then).
A job of more stages overrides ``stages``.

Never here: running anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from railyard.cluster.bounded import FEW, Name, Tasks
from railyard.cluster.errors import COUNT_MAX, UsageError, require, unknown_name
from railyard.cluster.ids import STAGE_NAME
from railyard.jobs.formats import InputFormat, Lines
from railyard.jobs.operators import Map, Reduce
from railyard.jobs.params import read_params
from railyard.jobs.records import Pairs, partition_by_hash
from railyard.jobs.taskio import Operator

#: Tasks of a stage.
TASKS_MAX = COUNT_MAX
#: More tasks than that nobody would wait for on a laptop's slots.
REDUCES_MAX = 100_000


class StageSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stage as the ResourceManager knows it: what to run, without the code."""

    name: Name  #: small letters only: "m" and "r" in plain MapReduce
    #: stages whose output it fetches; none: it reads the job's files
    reads: Annotated[tuple[Name, ...], FEW] = ()
    tasks: Tasks = 0  #: 0 = one for each split of the job's files

    @property
    def kind(self) -> Literal["map", "reduce"]:
        """Whether its tasks read files ("map", also if they read nothing) or fetch ("reduce")."""
        return "reduce" if self.reads else "map"


@dataclass(frozen=True)
class Stage:
    """A stage as a job writes it."""

    name: str  #: small letters only
    operator: Operator
    reads: tuple[str, ...] = ()  #: names of stages listed before it; none: it reads the job's files
    #: how many tasks; None: one a split if it reads files, else what was asked for at submission
    tasks: int | None = None

    def spec(self, reduces: int) -> StageSpec:
        """The stage without its code; ``reduces`` is what was asked for at submission."""
        tasks = self.tasks
        if tasks is None:
            tasks = reduces if self.reads else 0
        return StageSpec(name=self.name, reads=tuple(self.reads), tasks=tasks)


class Job:
    """Base of all jobs; see the top of this file.

    Raises ``UsageError`` when it is made with parameters that are unknown, missing or wrong.
    """

    input: ClassVar[InputFormat] = Lines()  #: how the job's files become records

    def __init__(self, **params: Any) -> None:
        #: counted so far by ``count``; of one task
        self.counters: dict[str, int] = {}
        for name, value in read_params(type(self), params).items():
            setattr(self, name, value)
        try:
            self.setup()
        except (ValueError, TypeError) as error:
            raise UsageError(f"{type(self).__name__}: {error}") from error

    def setup(self) -> None:
        """Look at the parameters and prepare; raise ``ValueError`` if they make no sense.

        Called once in every process that works for the job.
        """

    def map(self, record: Any) -> Pairs | None:
        """Yield the (key, value) pairs of one record."""
        raise NotImplementedError

    def combine(self, key: Any, values: Iterable[Any]) -> Pairs | None:
        """Yield fewer pairs in place of those of a key with some of its values."""
        raise NotImplementedError

    def reduce(self, key: Any, values: Iterable[Any]) -> Pairs | None:
        """Yield the output for a key and all of its values, which come once, in any order."""
        raise NotImplementedError

    def partition(self, key: Any, partitions: int) -> int:
        """Which of the reduces gets a key: 0 to ``partitions`` - 1, the same in every process."""
        return partition_by_hash(key, partitions)

    def count(self, name: str, by: int = 1) -> None:
        """Add to the job's counter ``name``, which the report at its end shows."""
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

    def stage(self, name: str) -> Stage:
        """The stage called ``name``; ``UsageError`` if there is none."""
        stages = {stage.name: stage for stage in self.stages()}
        if name not in stages:
            raise unknown_name(f"stage of {type(self).__name__}", name, stages)
        return stages[name]

    def stage_specs(self, reduces: int = 1) -> tuple[StageSpec, ...]:
        """The stages for a submission with ``reduces`` reduce tasks, checked."""
        require(reduces >= 1, "reduces", reduces, "a whole number >= 1")
        specs = tuple(stage.spec(reduces) for stage in self.stages())
        check_stages(specs)
        return specs

    def _defines(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(Job, name)


def check_stages(stages: Sequence[StageSpec]) -> None:
    """Raise ``UsageError`` unless the stages are a graph that can be run.

    Names are unique and made of letters, each stage reads earlier ones, those that fetch have
    tasks, and all readers of a stage have the same number of tasks (it is partitioned once).
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
        right = f"at most {TASKS_MAX}"
        require(stage.tasks <= TASKS_MAX, f"{where}: tasks", stage.tasks, right)
        if stage.tasks < 0 or (stage.reads and stage.tasks == 0):
            raise UsageError(f"{where}: tasks = {stage.tasks}: need a whole number >= 1")
        if len(set(stage.reads)) < len(stage.reads):
            raise UsageError(f"{where}: reads a stage twice: need each once")
        for name in stage.reads:
            if name not in seen:
                raise UsageError(f'{where}: reads "{name}": need a stage listed before it')
            other = readers.setdefault(name, stage)
            if other.tasks != stage.tasks:
                raise UsageError(
                    f'{where}: has {stage.tasks} tasks, but "{other.name}", which reads "{name}"'
                    f" as well, has {other.tasks}: need as many"
                )
        seen[stage.name] = stage
