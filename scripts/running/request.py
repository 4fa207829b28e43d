"""The request of ``railyard run``, and a single job's plan, checked before a cluster starts."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from railyard.cluster.errors import PeerError, UsageError
from railyard.cluster.processes.users import user_name
from railyard.cluster.topology import Topology
from railyard.dfs.paths import join_path, parse_path
from railyard.jobs.mixes.given import check_given, expanded, read_inputs
from railyard.jobs.mixes.mixplans import StoredFiles, blocks_to_read
from railyard.jobs.samples.catalog import find
from railyard.jobs.samples.sample import Plan, Request, default_reduces
from railyard.scripts.clusters.request import ClusterRequest, JobsRequest
from railyard.scripts.terminal.options import (
    TextPairs,
    name,
    new_folder,
    strict_option,
    text_pairs,
)
from railyard.scripts.terminal.request import argument, option


@dataclass(frozen=True, kw_only=True)
class RunRequest(ClusterRequest, JobsRequest):
    """Arguments and options of ``railyard run``."""

    jobs: tuple[str, ...] = argument(nargs=-1, required=True, metavar="JOB...")
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
    request: RunRequest, topology: Topology, seed: int, store: StoredFiles | None
) -> Prepared:
    """The plan of a single job; ``store``: of the cluster that is up, None if none is.

    Raises ``UsageError`` for an invalid request, ``InputError`` for unreadable input.
    """
    [job] = request.jobs
    sample = find(job)
    folder = f"/runs/{sample.name}-{secrets.token_hex(3)}"
    texts = expanded(request.inputs, None if store is None else store.matching)
    given = read_inputs(texts, f"{folder}/input")
    sizes = given.sizes
    stored_bytes = sum(sizes) if request.inputs else topology.stored_size(request.input_bytes)
    blocks = blocks_to_read(given, stored_bytes, topology, store)
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
    check_given(job, given, plan, sizes)
    return Prepared(
        name=sample.name,
        plan=plan,
        copies=given.copies,
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
    return sum(read_inputs(request.inputs, "/").sizes)


def _output(path: str | None) -> str:
    if path is None:
        return ""
    try:
        folder = join_path(parse_path(path))
    except PeerError as error:
        raise UsageError(f"--output {path}: {error}") from None
    if folder == "/":
        raise UsageError(f"--output {path}: exists already: need the path of a new folder")
    return folder
