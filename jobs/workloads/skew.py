"""Gives the parts of an input to racks by their shares (``jobs.skew``).

Real jobs that generate input and workloads of the simulator use the same functions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from railyard.jobs.skew import Skew
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob, split_by


def rack_of_each(shares: Sequence[float], parts: int) -> list[int]:
    """The rack's number for each of ``parts`` equal parts of an input, by the racks' shares.

    Parts that follow one another lie in the same rack.  Numbers are rounded by the largest rest.
    """
    counts = split_by(parts, shares)
    return [rack for rack, count in enumerate(counts) for _ in range(count)]


def spread_files(files: Sequence[InputFile], shares: Sequence[float]) -> list[InputFile]:
    """The files of one folder, each whole in one rack, so that the folder has these shares."""
    racks = rack_of_each(shares, len(files))
    whole = [tuple(float(at == rack) for at in range(len(shares))) for rack in racks]
    return [_with([file], share)[0] for file, share in zip(files, whole, strict=True)]


def skewed(workload: Workload, skew: Skew, racks: int, seed: int) -> Workload:
    """The workload with skewed inputs on ``racks`` racks, each file or folder for itself.

    They replace the shares that the workload's generator has chosen.
    """
    placed: dict[str, InputFile] = {}  #: {path: file}; jobs may share files
    jobs = []
    for job in workload.jobs:
        for data, files in _by_data(job).items():
            shares = skew.shares(racks, f"{seed} {data}")
            for file in spread_files(files, shares) if files[0].folder else _with(files, shares):
                placed.setdefault(file.path, file)
        of_job = tuple([placed[file.path] for file in job.files])
        jobs.append(msgspec.structs.replace(job, files=of_job))
    return dataclasses.replace(workload, jobs=tuple(jobs))


def _with(files: Sequence[InputFile], shares: tuple[float, ...]) -> list[InputFile]:
    return [msgspec.structs.replace(file, shares=shares, nodes=()) for file in files]


def _by_data(job: WorkloadJob) -> dict[str, list[InputFile]]:
    """{folder, or file that is placed alone: its files}."""
    found: dict[str, list[InputFile]] = {}
    for file in job.files:
        found.setdefault(file.folder or file.path, []).append(file)
    return found
