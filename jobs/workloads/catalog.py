"""The list of workloads, and the parser of "corral-w1" or "swim:FILE.tsv,jobs=1000,users=20".

The text is a name, a file if the workload reads one, and options separated by commas; sizes, rates
and times have units.  ``railyard workloads`` lists names, sources and options.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from railyard.cluster.acceptance import Accepted, Effect, declared
from railyard.cluster.errors import UsageError, printable, require, require_count, unknown_name
from railyard.cluster.inputfile import Duration, Size, build
from railyard.cluster.topologyfile import split_changes
from railyard.cluster.units import format_size, number_or_text
from railyard.jobs.model import TASKS_MAX
from railyard.jobs.skew import skew_of
from railyard.jobs.workloads.coflows import CoflowOptions, coflow_jobs
from railyard.jobs.workloads.corral import (
    MixOptions,
    RecurringOptions,
    TpchOptions,
    W1Options,
    W2Options,
    W3Options,
    mix,
    recurring,
    tpch,
    w1,
    w2,
    w3,
)
from railyard.jobs.workloads.joint import JointOptions, joint
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob, WorkStage
from railyard.jobs.workloads.population import Population
from railyard.jobs.workloads.shadow import (
    ShadowFacebookOptions,
    ShadowOptions,
    shadow,
    shadow_facebook,
)
from railyard.jobs.workloads.swim import CoSchedulerOptions, SwimOptions, co_scheduler, swim
from railyard.jobs.workloads.tetrium import (
    BigDataOptions,
    TetriumOptions,
    TpcdsOptions,
    bigdata,
    tetrium,
    tpcds,
)
from railyard.jobs.workloads.tracefiles import HOW_TO_GET
from railyard.jobs.workloads.transforms import coarser, skewed
from railyard.jobs.workloads.wfcommons import WfCommonsOptions, wfcommons


@dataclass(frozen=True)
class Family:
    """A workload of the list, before its options are chosen."""

    name: str
    about: str
    source: str
    options: type[Population]
    #: called with (options, seed), or (path, options, seed) if it reads a file
    make: Callable[..., Workload]
    file: str = ""  #: placeholder of its file, such as "FILE.tsv"; "" = it reads none

    def defaults(self) -> list[str]:
        """All options with their defaults: "block=256MB"; None = the topology's."""
        hints = typing.get_type_hints(self.options, include_extras=True)
        default = {field.name: field.default for field in msgspec.structs.fields(self.options)}
        used = self.accepted.named(Effect.USED)
        return [
            f"{name}={_shown(value, hints[name])}"
            for name, value in default.items()
            if name in used
        ]

    @cached_property
    def accepted(self) -> Accepted:
        """All its options, and those of other workloads that it refuses."""
        return declared(f"workload {self.name}", "option", self.options)


def _shown(value: Any, kind: Any) -> str:
    if kind == Size:
        return format_size(value).replace(" ", "")
    return f"{value:g}s" if kind == Duration else str(value)


_CORRAL = "Jalaparti et al., SIGCOMM 2015 (Corral)"
#: In names that people give to the public traces.
_FACEBOOK = re.compile("fb|facebook", re.IGNORECASE)
_TETRIUM = "Hung et al., EuroSys 2018 (Tetrium)"

_FAMILIES = (
    Family(
        "swim",
        "a trace of input, shuffle and output bytes, such as Facebook's of 2009 and 2010",
        "Chen et al., MASCOTS 2011 (SWIM)",
        SwimOptions,
        swim,
        "FILE.tsv",
    ),
    Family(
        "co-scheduler",
        "1,000 jobs of a SWIM trace that shuffle, 20 users, at once, half of them recurring",
        "Co-scheduler, section V",
        CoSchedulerOptions,
        co_scheduler,
        "FILE.tsv",
    ),
    Family(
        "corral-w1",
        "200 jobs, small, medium and large, selectivities 4:1 to 1:4",
        f"{_CORRAL}, 6.1 (a), 6.6",
        W1Options,
        w1,
    ),
    Family(
        "corral-w2",
        "400 jobs like Yahoo's: 90 % tiny, two of 5.5 TB",
        f"{_CORRAL}, 6.1 (b)",
        W2Options,
        w2,
    ),
    Family(
        "corral-w3",
        "200 jobs with Microsoft Cosmos' percentiles",
        f"{_CORRAL}, Table 1",
        W3Options,
        w3,
    ),
    Family(
        "corral-tpch",
        "15 queries like TPC-H's on 200 GB, beside a batch of W1",
        f"{_CORRAL}, 6.3",
        TpchOptions,
        tpch,
    ),
    Family(
        "corral-mix",
        "100 recurring jobs and 50 ad hoc ones of W1",
        f"{_CORRAL}, 6.4",
        MixOptions,
        mix,
    ),
    Family(
        "corral-recurring",
        "20 jobs that recur each day, predicted from the days before",
        f"{_CORRAL}, 2",
        RecurringOptions,
        recurring,
    ),
    Family(
        "tetrium",
        "200 trees of 2 to 16 stages, inputs skewed over 50 sites",
        f"{_TETRIUM}, 6.1",
        TetriumOptions,
        tetrium,
    ),
    Family(
        "tetrium-tpcds",
        "50 queries like TPC-DS': 6 to 16 stages in sequence, 8 sites",
        f"{_TETRIUM}, 6.2 (a)",
        TpcdsOptions,
        tpcds,
    ),
    Family(
        "tetrium-bigdata",
        "50 queries like the Big Data benchmark's: 2 to 5 stages in sequence, 8 sites",
        f"{_TETRIUM}, 6.2 (b)",
        BigDataOptions,
        bigdata,
    ),
    Family(
        "shadow",
        "six applications of 120 GB, one after the other",
        "Shadow, 5.3",
        ShadowOptions,
        shadow,
    ),
    Family(
        "shadow-facebook",
        "50 jobs of a SWIM trace, scaled to 730 GB",
        "Shadow, 5.3",
        ShadowFacebookOptions,
        shadow_facebook,
        "FILE.tsv",
    ),
    Family(
        "joint",
        "200 jobs of 93 tasks of 13 s on average, 15 s apart",
        "Joint, Table 2",
        JointOptions,
        joint,
    ),
    Family(
        "wfcommons",
        "a scientific workflow in WfFormat: a stage for each task",
        "Coleman et al., FGCS 2022 (WfCommons)",
        WfCommonsOptions,
        wfcommons,
        "FILE.json",
    ),
    Family(
        "coflow-benchmark",
        "a trace of coflows, each a job of one shuffle",
        "coflow-benchmark (Chowdhury)",
        CoflowOptions,
        coflow_jobs,
        "FILE.txt",
    ),
)

#: {name: family}
FAMILIES: dict[str, Family] = {family.name: family for family in _FAMILIES}


def workload(text: str, seed: int, racks: int = 0) -> Workload:
    """The workload of the text "NAME" or "NAME:FILE", perhaps with ",KEY=VALUE,...".

    ``racks``: how many the cluster has, over which inputs are skewed if that is asked for; 0 = not
    known, and nothing is skewed.  The same text, seed and racks give the same jobs.  Raises
    ``UsageError`` for an unknown name or option, an impossible value, and a file that is missing or
    malformed.
    """
    base, changes = split_changes(text)
    name, _, file = base.partition(":")
    if name not in FAMILIES:
        raise unknown_workload(name, FAMILIES)
    family = FAMILIES[name]
    if bool(file) != bool(family.file):
        right = f"{name} without a file"
        if family.file:
            right = f"a file, as in {name}:{family.file}; {HOW_TO_GET}"
        raise UsageError(f"workload {text}: need {right}")
    given: dict[str, Any] = {key: number_or_text(value) for key, value in changes}
    options = build(given, family.options, f"workload {name}")
    made = family.make(Path(file), options, seed) if file else family.make(options, seed)
    for job in made.jobs:
        most = max(stage.tasks for stage in job.stages)
        if most > TASKS_MAX:
            right = f"need at most {TASKS_MAX}, as by larger blocks"
            raise UsageError(f"workload {name}: {job.name} has {most} tasks in a stage: {right}")
    made = coarser(made, options.grain)
    skew = skew_of(options.skew, options.skew_ratio)
    if skew is not None and not any(job.files for job in made.jobs):
        raise UsageError(f"workload {name}: skew: its jobs read no files: need some that do")
    return skewed(made, skew, racks, seed) if skew is not None and racks else made


def unknown_workload(name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist; of Facebook's traces it says how to get them."""
    if _FACEBOOK.search(name) is None:
        return unknown_name("workload", name, known)
    asked = printable(name, 80)
    right = "Facebook's traces are swim:FILE.tsv and coflow-benchmark:FILE.txt"
    return UsageError(f'unknown workload "{asked}": {right}; {HOW_TO_GET}')


# The sample jobs as workloads, with the sizes that ``railyard run`` would have.
#
# Shuffle and output are shares of the input, as measured on real jobs with 10 GB of generated input
# on hybrid-8x4.  TeraSort keeps every byte.  WordCount's maps, with a combiner, ship half of their
# input, and its reduces write 4 % of that.


@dataclass(frozen=True)
class _Shares:
    shuffle: float  #: of the input
    output: float  #: of the shuffle


_SAMPLES = {
    "terasort": _Shares(1.0, 1.0),
    "wordcount": _Shares(5.053812 / 10, 0.198784 / 5.053812),
}


def is_sample(name: str) -> bool:
    """Whether a sample job has this name."""
    return name in _SAMPLES


def sample_workload(name: str, size_bytes: int, block_bytes: int, reduces: int) -> Workload:
    """One job at 0 s, with as many input files as the input has blocks.

    Raises ``UsageError`` for an unknown name, or sizes below one.
    """
    if name not in _SAMPLES:
        raise unknown_name("workload", name, _SAMPLES)
    require(size_bytes >= 1, "size", size_bytes, "at least one byte")
    require_count("reduces", reduces)
    shares = _SAMPLES[name]
    parts = -(-size_bytes // block_bytes)
    if parts > TASKS_MAX:
        right = f"need at most {TASKS_MAX}: a smaller size, or larger blocks"
        raise UsageError(f"{name}: {format_size(size_bytes)} are {parts} maps: {right}")
    files = _files(name, size_bytes, block_bytes, parts)
    shuffle_bytes = round(size_bytes * shares.shuffle)
    output_bytes = round(shuffle_bytes * shares.output)
    maps = WorkStage(
        name="m",
        files=tuple(file.path for file in files),
        tasks=sum(file.blocks for file in files),
        output_bytes=shuffle_bytes,
    )
    reduce = WorkStage(name="r", reads=("m",), tasks=reduces, output_bytes=output_bytes)
    job = WorkloadJob(
        name=name, user="user", queue="default", submit_s=0.0, stages=(maps, reduce), files=files
    )
    return Workload(name=name, source="the sample job of that name", jobs=(job,))


def _files(name: str, size_bytes: int, block_bytes: int, parts: int) -> tuple[InputFile, ...]:
    """``parts`` input files of equal size up to rounding, as generating tasks write them."""
    part, odd = divmod(size_bytes, parts)
    return tuple(
        InputFile(
            path=f"/in/{name}/part-{number:05d}",
            size_bytes=part + (number < odd),
            block_bytes=block_bytes,
        )
        for number in range(parts)
    )
