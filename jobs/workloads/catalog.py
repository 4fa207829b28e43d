"""The list of workloads, and the parser of "corral-w1" or "swim:FILE.tsv,jobs=1000,users=20".

The text is a name, a file if the workload reads one, and options separated by commas; sizes, rates
and times have units.  ``railyard workloads`` lists names, sources and options.

Sample jobs are workloads, too, with the sizes that ``railyard run`` would have.
"""

from __future__ import annotations

import inspect
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
from railyard.jobs.workloads.coflows import coflow_jobs
from railyard.jobs.workloads.corral import mix, recurring, tpch, w1, w2, w3
from railyard.jobs.workloads.joint import joint
from railyard.jobs.workloads.model import (
    InputFile,
    Workload,
    WorkloadJob,
    WorkStage,
    coarser,
    skewed,
)
from railyard.jobs.workloads.population import Population
from railyard.jobs.workloads.shadow import shadow, shadow_facebook
from railyard.jobs.workloads.swim import co_scheduler, swim
from railyard.jobs.workloads.tetrium import bigdata, tetrium, tpcds
from railyard.jobs.workloads.tracefiles import HOW_TO_GET
from railyard.jobs.workloads.wfcommons import wfcommons


@dataclass(frozen=True)
class Family:
    """A workload of the list, before its options are chosen."""

    name: str
    #: called with (options, seed), or (path, options, seed) if it reads a file
    make: Callable[..., Workload]
    source: str
    file: str = ""  #: placeholder of its file, such as "FILE.tsv"; "" = it reads none

    @property
    def about(self) -> str:
        """A line about it: what its function says."""
        text = (inspect.getdoc(self.make) or "").removesuffix(".")
        return text[:1].lower() + text[1:]

    @cached_property
    def options(self) -> type[Population]:
        kind: type[Population] = typing.get_type_hints(self.make)["options"]
        return kind

    def defaults(self) -> list[str]:
        """All options with their defaults: "block=256MB"; None = the topology's."""
        hints = typing.get_type_hints(self.options, include_extras=True)
        used = self.accepted.named(Effect.USED)
        return [
            f"{field.name}={_shown(field.default, hints[field.name])}"
            for field in msgspec.structs.fields(self.options)
            if field.name in used
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
_TETRIUM = "Hung et al., EuroSys 2018 (Tetrium)"
_FAMILIES = (
    Family("swim", swim, "Chen et al., MASCOTS 2011 (SWIM)", "FILE.tsv"),
    Family("co-scheduler", co_scheduler, "Co-scheduler, section V", "FILE.tsv"),
    Family("corral-w1", w1, f"{_CORRAL}, 6.1 (a), 6.6"),
    Family("corral-w2", w2, f"{_CORRAL}, 6.1 (b)"),
    Family("corral-w3", w3, f"{_CORRAL}, Table 1"),
    Family("corral-tpch", tpch, f"{_CORRAL}, 6.3"),
    Family("corral-mix", mix, f"{_CORRAL}, 6.4"),
    Family("corral-recurring", recurring, f"{_CORRAL}, 2"),
    Family("tetrium", tetrium, f"{_TETRIUM}, 6.1"),
    Family("tetrium-tpcds", tpcds, f"{_TETRIUM}, 6.2 (a)"),
    Family("tetrium-bigdata", bigdata, f"{_TETRIUM}, 6.2 (b)"),
    Family("shadow", shadow, "Shadow, 5.3"),
    Family("shadow-facebook", shadow_facebook, "Shadow, 5.3", "FILE.tsv"),
    Family("joint", joint, "Joint, Table 2"),
    Family("wfcommons", wfcommons, "Coleman et al., FGCS 2022 (WfCommons)", "FILE.json"),
    Family("coflow-benchmark", coflow_jobs, "coflow-benchmark (Chowdhury)", "FILE.txt"),
)

FAMILIES: dict[str, Family] = {family.name: family for family in _FAMILIES}
#: {sample job: (shuffle / input, output / shuffle)}, as measured on real jobs with 10 GB of
#: generated input on hybrid-8x4.  TeraSort keeps every byte.  WordCount's maps, with a combiner,
#: ship half of their input, and its reduces write 4 % of that.
SAMPLES = {"terasort": (1.0, 1.0), "wordcount": (5.053812 / 10, 0.198784 / 5.053812)}
#: In names that people give to the public traces.
_FACEBOOK = re.compile("fb|facebook", re.IGNORECASE)


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
    right = "Facebook's traces are swim:FILE.tsv and coflow-benchmark:FILE.txt"
    return UsageError(f'unknown workload "{printable(name, 80)}": {right}; {HOW_TO_GET}')


def sample_workload(name: str, size_bytes: int, block_bytes: int, reduces: int) -> Workload:
    """One job at 0 s, with as many input files as the input has blocks.

    Raises ``UsageError`` for an unknown name, or sizes below one.
    """
    if name not in SAMPLES:
        raise unknown_name("workload", name, SAMPLES)
    require(size_bytes >= 1, "size", size_bytes, "at least one byte")
    require_count("reduces", reduces)
    shuffle_share, output_share = SAMPLES[name]
    parts = -(-size_bytes // block_bytes)
    if parts > TASKS_MAX:
        right = f"need at most {TASKS_MAX}: a smaller size, or larger blocks"
        raise UsageError(f"{name}: {format_size(size_bytes)} are {parts} maps: {right}")
    part, odd = divmod(size_bytes, parts)  # as generating tasks write them
    files = tuple(
        InputFile(
            path=f"/in/{name}/part-{number:05d}",
            size_bytes=part + (number < odd),
            block_bytes=block_bytes,
        )
        for number in range(parts)
    )
    shuffle_bytes = round(size_bytes * shuffle_share)
    output_bytes = round(shuffle_bytes * output_share)
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
    return Workload(name=name, jobs=(job,))
