"""The request of ``railyard run``, and a single job's plan, checked before a cluster starts."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.processes.users import user_name
from railyard.cluster.topology import Topology
from railyard.jobs.samples.catalog import find
from railyard.jobs.samples.sample import GivenFile, Plan, Request, default_reduces
from railyard.scripts.clusters.request import ClusterRequest, JobsRequest
from railyard.scripts.running.files import LocalFile, readable_size
from railyard.scripts.running.inputs import local_files, read_inputs, stored_path
from railyard.scripts.terminal.options import (
    TextPairs,
    name,
    new_folder,
    strict_option,
    text_pairs,
)
from railyard.scripts.terminal.request import argument, option

#: Number of blocks of a file or folder of the block store; ``UsageError`` if there is none.
BlocksOf = Callable[[str], int]


@dataclass(frozen=True, kw_only=True)
class RunRequest(ClusterRequest, JobsRequest):
    """Arguments and options of ``railyard run``."""

    jobs: tuple[str, ...] = argument(nargs=-1, required=True, metavar="JOB...")
    inputs: tuple[str, ...] = option(
        "--input",
        multiple=True,
        metavar="FILE",
        help="A local file, or dfs:/PATH of the cluster that is up; orders=FILE for a job that "
        "names its inputs.  Repeatable.",
    )
    output: str | None = option(
        "--output", metavar="PATH", help="Folder of the block store for the output."
    )
    fetch_to: Path | None = option(
        "--get", metavar="DIR", callback=new_folder, help="Fetch the output to a new folder."
    )
    params: TextPairs = option(
        "--param",
        callback=text_pairs,
        multiple=True,
        help="A parameter of the job, such as min_letters=12.  Repeatable.",
    )
    user: str = option(
        "--user", default=user_name, callback=name, help="Owner of the job; default: you."
    )
    queue: str = option(
        "--queue", default="default", callback=name, help="Its queue or pool; default: default."
    )
    strict: bool = strict_option()


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A job's plan, and the local files that it needs."""

    name: str  #: of the workload
    plan: Plan
    #: path in the block store -> the local file that is to be copied there
    copies: dict[str, Path] = field(default_factory=dict)
    stored_bytes: int = 0  #: real bytes of input to generate or to copy; 0: it is there already
    tasks: int = 0  #: as many maps as its input has blocks, and its reduces


def prepare(
    request: RunRequest, topology: Topology, seed: int, blocks_of: BlocksOf | None
) -> Prepared:
    """The plan of a single job; ``blocks_of`` asks the cluster that is up, None if none is.

    Raises ``UsageError`` for an invalid request, ``InputError`` for unreadable input.
    """
    [job] = request.jobs
    sample = find(job)
    folder = f"/runs/{sample.name}-{secrets.token_hex(3)}"
    is_up = blocks_of is not None
    given = read_inputs(request.inputs, f"{folder}/input", cluster_is_up=is_up)
    copies, stored_bytes = given.copies, 0
    if not request.inputs:
        stored_bytes = incoming_bytes(request, topology)
    sizes = [readable_size(local) for local in copies.values()] or [stored_bytes]
    blocks = sum(-(-size // topology.stored_block_bytes) for size in sizes)
    if blocks_of is not None:
        blocks += sum(map(blocks_of, given.stored))
    reduces = request.reduces or default_reduces(topology, blocks)
    plan = sample.plan(
        Request(
            folder=folder,
            input=given.path,
            inputs=given.named,
            output=_output(request.output),
            stored_bytes=stored_bytes,
            parts=-(-stored_bytes // topology.stored_block_bytes),
            reduces=reduces,
            seed=seed,
            params=dict(request.params),
        )
    )
    _check_names(job, [each for each, _ in given.named], plan, has_input=bool(request.inputs))
    files: list[GivenFile] = []
    for path, local in copies.items():
        called = given.name_of(path)
        plan.formats.get(called, plan.input).check(str(local), readable_size(local))
        files.append(GivenFile(called, str(local), LocalFile(local)))
        stored_bytes += readable_size(local)
    if files and plan.check_files is not None:
        plan.check_files(files)
    if copies and plan.check_sizes is not None:
        plan.check_sizes([readable_size(local) for local in copies.values()])
    return Prepared(
        name=sample.name,
        plan=plan,
        copies=copies,
        stored_bytes=stored_bytes,
        tasks=blocks + reduces,
    )


def incoming_bytes(request: RunRequest, topology: Topology) -> int:
    """Real bytes that a single job's input adds to the block store: generated, or copied there.

    Raises as ``prepare`` does.
    """
    find(request.jobs[0])
    if request.inputs and request.size_bytes is not None:
        raise UsageError("--size: --input says what to read: need one of the two")
    if not request.inputs:
        return topology.stored_size(request.input_bytes)
    return sum(map(readable_size, local_files(request.inputs)))


def _check_names(job: str, given: list[str], plan: Plan, *, has_input: bool) -> None:
    """Raise ``UsageError`` unless input is given where it is needed, by the names the job has."""
    if given and not plan.formats:
        raise UsageError(f"{job}: its input has no name: need --input FILE")
    for each in given:
        if each not in plan.formats:
            raise unknown_name(f"input of {job}", each, list(plan.formats))
    for each in plan.formats:
        if each not in given and (has_input or plan.needs_input):
            raise UsageError(f"{job}: reads {', '.join(plan.formats)}: need --input {each}=FILE")
    if plan.needs_input and not has_input:
        raise UsageError(f"{job}: reads input: need --input FILE")


def _output(path: str | None) -> str:
    if path is None:
        return ""
    folder = stored_path("--output", path)
    if folder == "/":
        raise UsageError(f"--output {path}: exists already: need the path of a new folder")
    return folder
