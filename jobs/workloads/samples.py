"""The sample jobs as workloads, with the sizes that ``railyard run`` would have.

Shuffle and output are shares of the input, as measured on real jobs with 10 GB of generated input
on hybrid-8x4.  TeraSort keeps every byte.  WordCount's maps, with a combiner, ship half of their
input, and its reduces write 4 % of that.
"""

from __future__ import annotations

from dataclasses import dataclass

from railyard.cluster.errors import UsageError, require, require_count, unknown_name
from railyard.cluster.units import format_size
from railyard.jobs.model import TASKS_MAX
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob, WorkStage


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
