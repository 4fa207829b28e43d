"""Mixes: several jobs that run concurrently, each with a size, a user and a submission time.

A mix is given in three ways, which may be combined:

    terasort,size=2GB,submit=5s wordcount,times=3,user=ann       jobs by name, with their options
    mix,jobs=20,sizes=500MB+1GB+2GB,window=30s                   random jobs, drawn by seed
    ./mine.py,input=corpus.txt ./join.py,input.a=a.csv,input.b=b/*.csv    on files of one's own
    evening.toml                                                 a file with a [[job]] for each job

The keys of a file's tables are the options above.  By default all jobs are predicted, as recurring
jobs are, and without errors; recurring=0.5,size_error=0.1,late=0.2 changes that.
A mix's plans are the steps to run for each job, on a real cluster or in the simulator.
"""

from __future__ import annotations

import functools
import random
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import msgspec

from railyard.cluster.acceptance import Accepted, declared
from railyard.cluster.errors import (
    UsageError,
    printable,
    require,
    require_name,
    require_part,
    unknown_name,
)
from railyard.cluster.inputfile import Duration, Size, build, read_toml
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import split_changes
from railyard.cluster.units import parse_size
from railyard.jobs.inputs import (
    STORE_PREFIX,
    Inputs,
    check_given,
    expanded,
    read_inputs,
    split_input,
)
from railyard.jobs.model import REDUCES_MAX
from railyard.jobs.plan import Plan, Request, Step, default_reduces
from railyard.jobs.samples.catalog import find
from railyard.jobs.skew import Skew, skew_of
from railyard.jobs.taskio import BadInput
from railyard.jobs.workloads.model import Recurrence

MIX = "mix"
_PARAM = "param."
_INPUT = "input"
_NUMBER_LETTERS_MAX = 30  #: longest text that is read as a number
JOBS_MAX = 10_000  #: of a mix; the simulator's workloads may have more
_Count = Annotated[int, msgspec.Meta(ge=1, le=JOBS_MAX)]
_Reduces = Annotated[int, msgspec.Meta(ge=1, le=REDUCES_MAX)]


class MixJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a mix."""

    name: str  #: unique: "terasort-3"
    job: str  #: a name for ``jobs.samples.catalog.find``: "terasort"
    submit_s: float  #: from the start of the mix
    size_bytes: int  #: model's bytes of the generated input
    reduces: int | None  #: None = chosen by size and slots
    user: str
    queue: str
    params: dict[str, str]
    own_input: bool = False  #: whether it shares no input, even with jobs that have an equal one
    #: what it reads, as ``jobs.inputs`` has it: "a.txt", "orders=o.csv"; () = generated input
    inputs: tuple[str, ...] = ()
    skew: Skew | None = None  #: of its input over the racks; None = the store's or scheduler's rule
    recurrence: Recurrence | None = None  #: its forecast; None = it is not predicted


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in the order of their submission."""

    name: str  #: the words of the command that describe the mix
    jobs: tuple[MixJob, ...]


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """Options of the jobs that do not have their own."""

    size_bytes: int
    reduces: int | None = None
    user: str = "user"
    queue: str = "default"
    params: tuple[tuple[str, str], ...] = ()
    inputs: tuple[str, ...] = ()


def user_files(jobs: Iterable[str]) -> list[str]:
    """The Python files among the jobs of a command, each once."""
    files = (job.partition(":")[0] for job in jobs)
    return list(dict.fromkeys(file for file in files if file.endswith(".py")))


def is_single(words: Sequence[str]) -> bool:
    """Whether the words are the name of one job, without options."""
    [first, *others] = words
    return not others and first != MIX and "," not in first and not first.endswith(".toml")


def option_names(name: str) -> list[str]:
    """The options that follow a job's name, or ``MIX``: "size", "param." and so on."""
    names = accepted_options(name).entries
    return [each if each != _PARAM.rstrip(".") else _PARAM for each in names]


@functools.cache
def accepted_options(name: str) -> Accepted:
    """The options that follow a job's name, or ``MIX``, and what they do."""
    if name == MIX:
        return declared("random mixes (mix,KEY=VALUE)", "option", _RandomMix)
    return declared("jobs by name, file or jobs.toml", "option", _JobOptions, without=("job",))


def read_mix(words: Sequence[str], defaults: Defaults, seed: int) -> Mix:
    """Parse a mix; raises ``UsageError`` for unknown jobs and wrong options."""
    wanted: list[MixJob] = []
    for word in words:
        wanted += _read(word, defaults, seed)
        if len(wanted) > JOBS_MAX:
            raise UsageError(f"{printable(word, 80)}: too many jobs: need at most {JOBS_MAX}")
    names = Counter(_base_name(one.job) for one in wanted)
    seen: Counter[str] = Counter()
    jobs = []
    for one in sorted(wanted, key=lambda one: one.submit_s):  # stable: equal times keep their order
        base = _base_name(one.job)
        seen[base] += 1
        name = base if names[base] == 1 else f"{base}-{seen[base]}"
        past = one.recurrence and msgspec.structs.replace(one.recurrence, name=name)
        jobs.append(msgspec.structs.replace(one, name=name, recurrence=past))
    return Mix(name=" ".join(words), jobs=tuple(jobs))


class _CommonOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of forecasts and inputs.

    Errors are drawn as for workloads (``jobs.workloads.population``): a size is off by up to twice
    ``size_error``, a time by up to ``late_by`` in either direction, both uniformly.
    """

    recurring: float = 1.0  #: share of the jobs that are predicted
    size_error: float = 0.0  #: mean of |predicted / actual size - 1|
    late: float = 0.0  #: share of the predicted jobs that are submitted at another time
    late_by: Duration = 10.0  #: they are submitted up to this much earlier or later
    inputs: Literal["shared", "own"] = "shared"  #: "own": each job has files of its own
    skew: float | None = None  #: of the generated inputs over the racks: exponent of Zipf's law
    skew_ratio: float | None = None  #: instead of it: most / least

    def __post_init__(self) -> None:
        for name in ("recurring", "late"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "a share of 0 to 1")
        require(0 <= self.size_error < 0.5, "size_error", self.size_error, "0 to below 0.5")
        skew_of(self.skew, self.skew_ratio)

    def without_effect(self) -> dict[str, str]:
        """{option that the values of others switch off: what it needs}"""
        off: dict[str, str] = {}
        if not self.recurring:
            off |= dict.fromkeys(("size_error", "late", "late_by"), "recurring above 0")
        elif not self.late:
            off["late_by"] = "late above 0: no job is late"
        elif not self.late_by:
            off["late"] = "late_by above 0"
        return off


class _JobOptions(_CommonOptions, frozen=True, kw_only=True):
    """The options of a job, in a word of the command or in a file's table."""

    job: str
    size: Size | None = None  #: of the input to generate; default: the command's
    #: a file, several, or those of each named input; instead of a size
    input: str | list[str] | dict[str, str | list[str]] = []
    submit: Duration = 0.0  #: when it is submitted, from the start
    times: _Count = 1  #: how many such jobs
    reduces: _Reduces | None = None  #: how many; default: the command's, or by size and slots
    user: str | None = None  #: its owner
    queue: str | None = None  #: its queue or pool
    #: parameters of the job: param.NAME=VALUE
    param: dict[str, Any] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("user", "queue"):
            if (name := getattr(self, key)) is not None:
                require_name(key, name)
        if self.input and self.size is not None:
            raise UsageError("size: input says what to read: need one of the two")

    @property
    def named_inputs(self) -> dict[str, list[str]]:
        """``input`` as {name: files}; "" = it has no name."""
        named = self.input if isinstance(self.input, dict) else {"": self.input}
        return {name: [of] if isinstance(of, str) else of for name, of in named.items() if of}


class _File(msgspec.Struct, frozen=True, kw_only=True):
    job: list[dict[str, Any]] = []


class _RandomMix(_CommonOptions, frozen=True, kw_only=True):
    """The options of a random mix; each of "a+b" is equally likely."""

    jobs: _Count = 12  #: how many
    of: str = "terasort+wordcount"  #: jobs, each as likely
    sizes: str = "500MB+1GB+2GB"  #: inputs to generate, each as likely
    window: Duration = 0.0  #: submission times are uniform over it; 0 = all jobs at once
    users: _Count = 1  #: how many; each job has one of them
    queues: str = ""  #: queues, each as likely
    reduces: _Reduces | None = None  #: of each job; default: the command's, or by size and slots


def _read(word: str, defaults: Defaults, seed: int) -> Iterator[MixJob]:
    if word.endswith(".toml"):
        yield from _from_file(Path(word), defaults, seed)
        return
    name, changes = split_changes(word, lists=(_INPUT,))
    options: dict[str, Any] = {}
    for key, value in changes:
        if key.startswith(_PARAM):
            options.setdefault("param", {})[key.removeprefix(_PARAM)] = value
        elif key == _INPUT or key.startswith(f"{_INPUT}."):
            of = options.setdefault(_INPUT, {})
            of.setdefault(key.removeprefix(_INPUT).removeprefix("."), []).append(value)
        else:
            options[key] = _as_number(value)
    if name == MIX:
        shape = build(options, _RandomMix, word)
        drawn = list(_draw(shape, defaults, random.Random(f"mix {seed}"), word))
        yield from _predicted(drawn, shape, f"{word} {seed}", word)
    else:
        wanted = build(options | {"job": name}, _JobOptions, word)
        yield from _predicted(_jobs(wanted, defaults), wanted, f"{word} {seed}", word)


def _from_file(path: Path, defaults: Defaults, seed: int) -> Iterator[MixJob]:
    file = build(read_toml(path), _File, str(path))
    if not file.job:
        raise UsageError(f'{path}: has no job: need tables [[job]] with job = "terasort" and so on')
    for number, table in enumerate(file.job, start=1):
        if number > JOBS_MAX:
            raise UsageError(f"{path}: has {len(file.job)} jobs: need at most {JOBS_MAX}")
        where = f"{path}: job {number}"
        wanted = _beside(path, build(table, _JobOptions, where))
        yield from _predicted(_jobs(wanted, defaults), wanted, f"{number} {seed}", where)


def _beside(file: Path, wanted: _JobOptions) -> _JobOptions:
    """The options of a file's table; files that they name are beside the file that names them."""

    def place(written: str) -> str:
        name, text = split_input(written)
        is_elsewhere = text.startswith(STORE_PREFIX) or Path(text).is_absolute() or "\0" in text
        if is_elsewhere or file.parent == Path():
            return written
        return f"{name}={file.parent / text}" if name else str(file.parent / text)

    job, colon, kind = wanted.job.partition(":")
    given = {name: [place(path) for path in paths] for name, paths in wanted.named_inputs.items()}
    return msgspec.structs.replace(
        wanted, job=f"{place(job) if job.endswith('.py') else job}{colon}{kind}", input=given
    )


def _predicted(
    jobs: list[MixJob], known: _CommonOptions, seed: str, where: str
) -> Iterator[MixJob]:
    """The jobs with their forecasts; exactly the shares that are set are predicted and late."""
    dice = random.Random(f"foretold {seed}")
    predicted = require_part(f"{where}: recurring", known.recurring, len(jobs))
    recurring = set(dice.sample(range(len(jobs)), predicted))
    off_time = require_part(f"{where}: late", known.late, predicted, "predicted jobs")
    late = set(dice.sample(sorted(recurring), off_time))
    for number, job in enumerate(jobs):
        ratio = 1 + dice.uniform(-2 * known.size_error, 2 * known.size_error)
        off_s = dice.uniform(-known.late_by, known.late_by) if number in late else 0.0
        past = Recurrence(name="", size_ratio=ratio, submit_s=max(0.0, job.submit_s + off_s))
        yield msgspec.structs.replace(
            job,
            own_input=known.inputs == "own",
            skew=skew_of(known.skew, known.skew_ratio),
            recurrence=past if number in recurring else None,
        )


def _jobs(wanted: _JobOptions, defaults: Defaults) -> list[MixJob]:
    given = tuple(
        f"{name}={path}" if name else path
        for name, paths in wanted.named_inputs.items()
        for path in paths
    )
    params = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in wanted.param.items()
    }
    job = MixJob(
        name="",
        job=wanted.job,
        submit_s=wanted.submit,
        size_bytes=defaults.size_bytes if wanted.size is None else wanted.size,
        reduces=wanted.reduces or defaults.reduces,
        user=wanted.user or defaults.user,
        queue=wanted.queue or defaults.queue,
        params=dict(defaults.params) | params,
        inputs=given or (defaults.inputs if wanted.size is None else ()),
    )
    return [job] * wanted.times


def _draw(
    shape: _RandomMix, defaults: Defaults, dice: random.Random, word: str
) -> Iterator[MixJob]:
    kinds = shape.of.split("+")
    right = "names with + between them, as in terasort+wordcount"
    require(all(kinds), f"{word}: of", shape.of, right)
    if MIX in kinds:
        raise unknown_name("job", MIX, ["terasort", "wordcount"])
    sizes = [parse_size(text, f"{word}: sizes") for text in shape.sizes.split("+")]
    queues = shape.queues.split("+") if shape.queues else [defaults.queue]
    for _ in range(shape.jobs):
        yield MixJob(
            name="",
            job=dice.choice(kinds),
            submit_s=round(dice.uniform(0.0, shape.window), 3),
            size_bytes=dice.choice(sizes),
            reduces=shape.reduces or defaults.reduces,
            user=f"user{dice.randrange(shape.users)}" if shape.users > 1 else defaults.user,
            queue=dice.choice(queues),
            params=dict(defaults.params),
            inputs=defaults.inputs,
        )


def _base_name(job: str) -> str:
    file, _, _ = job.partition(":")
    return Path(file).stem if file.endswith(".py") else job


def _as_number(text: str) -> str | int | float:
    if len(text) > _NUMBER_LETTERS_MAX:
        return text
    digits = text.removeprefix("-")
    if digits.isdecimal():
        return int(text)
    whole, point, rest = digits.partition(".")
    return float(text) if point and (whole + rest).isdecimal() else text


# Plans -------------------------------------------------------------------------------------------
class StoredFiles(Protocol):
    """The block store of the cluster that is up."""

    def blocks(self, path: str) -> int:
        """Number of blocks of a file or folder; ``UsageError`` if there is none."""

    def matching(self, pattern: str) -> Sequence[str]:
        """The paths of what matches a pattern, in order."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A job of a mix with its plan."""

    job: MixJob
    plan: Plan
    given: Inputs = field(default_factory=Inputs)  #: the user's files that it reads
    stored_bytes: int = 0  #: of its input, if that is to be generated or copied

    def steps(self) -> list[tuple[str, Step]]:
        """The steps of the job and the names that they run under, the first under the job's own."""
        own = self.job.name
        return [
            (own if number == 1 else f"{own}.{number}", step)
            for number, step in enumerate(self.plan.measured, start=1)
        ]


def plan_mix(
    mix: Mix, topology: Topology, seed: int, folder: str, store: StoredFiles | None = None
) -> tuple[Planned, ...]:
    """A plan for each job, with files below ``folder``; equal inputs are generated or copied once.

    ``store``: that of the cluster that is up; None if none is.  Raises ``UsageError`` with the
    job's name if its options are wrong, ``InputError`` for files that can't be read.
    """
    return tuple(_plan(job, topology, seed, folder, store) for job in mix.jobs)


def blocks_to_read(
    given: Inputs, stored_bytes: int, topology: Topology, store: StoredFiles | None
) -> int:
    """Number of blocks that a job reads: of given files, or of ``stored_bytes`` to be generated."""
    if given.stored and store is None:
        right = "railyard up starts one"
        raise UsageError(f"input {STORE_PREFIX}{given.stored[0]}: no cluster is up: {right}")
    stored = sum(map(store.blocks, given.stored)) if store is not None else 0
    sizes = given.sizes or ([] if given.stored else [stored_bytes])
    return stored + sum(-(-size // topology.stored_block_bytes) for size in sizes)


def _plan(
    job: MixJob, topology: Topology, seed: int, folder: str, store: StoredFiles | None
) -> Planned:
    try:
        own = f"{folder}/{job.name}"
        shared = f"{folder}/inputs"
        texts = expanded(job.inputs, None if store is None else store.matching)
        digest = zlib.crc32(repr(texts).encode("utf-8", "surrogateescape"))
        copies = f"{own}/input" if job.own_input else f"{shared}/given-{digest:08x}"
        given = read_inputs(texts, copies)
        sizes = given.sizes
        stored_bytes = sum(sizes) if job.inputs else topology.stored_size(job.size_bytes)
        blocks = blocks_to_read(given, stored_bytes, topology, store)
        # Jobs of a mix share the cluster: a reduce for two blocks.
        reduces = job.reduces or default_reduces(topology, blocks // 2)
        plan = find(job.job).plan(
            Request(
                folder=own,
                input=given.path,
                inputs=given.named,
                shared="" if job.own_input else shared,
                stored_bytes=stored_bytes,
                parts=-(-stored_bytes // topology.stored_block_bytes),
                reduces=reduces,
                seed=seed,
                params=job.params,
                skew=job.skew,
                racks=topology.racks.count,
            )
        )
        check_given(job.job, given, plan, sizes)
    except (UsageError, BadInput) as error:
        raise UsageError(f"{job.name}: {error}") from None
    if job.skew is not None and not any(step.shares for step in plan.steps):
        raise UsageError(f"{job.name}: skew: it generates no input: need a job that does")
    return Planned(job=job, plan=plan, given=given, stored_bytes=stored_bytes)
