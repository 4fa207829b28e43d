"""The request of ``railyard run``, and a single job's plan, checked before a cluster starts."""

from __future__ import annotations

import getpass
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from railyard.cluster.errors import PeerError, UsageError
from railyard.cluster.shown import printable
from railyard.cluster.topology import Topology
from railyard.dfs.paths import join_path, parse_path
from railyard.jobs.samples.catalog import find
from railyard.jobs.samples.sample import Plan, Request, default_reduces
from railyard.scripts.clusters.request import ClusterRequest, JobsRequest
from railyard.scripts.running.files import readable_size
from railyard.scripts.terminal.options import TextPairs, name, new_folder, text_pairs
from railyard.scripts.terminal.request import argument, option

#: Marks an input as a file or folder of the block store.
STORE_PREFIX = "dfs:"
#: Number of blocks of a file or folder of the block store; ``UsageError`` if there is none.
BlocksOf = Callable[[str], int]


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in containers
        return "user"


@dataclass(frozen=True, kw_only=True)
class RunRequest(ClusterRequest, JobsRequest):
    """Arguments and options of ``railyard run``."""

    jobs: tuple[str, ...] = argument(nargs=-1, required=True, metavar="JOB...")
    inputs: tuple[str, ...] = option(
        "--input",
        multiple=True,
        metavar="FILE",
        help="A local file, or dfs:/PATH of the cluster that is up.  Repeatable.",
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
    user: str = option("--user", default=_me, callback=name, help="Owner of the job; default: you.")
    queue: str = option(
        "--queue", default="default", callback=name, help="Its queue or pool; default: default."
    )


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A job's plan, and the local files that it needs."""

    name: str  #: of the workload
    plan: Plan
    #: path in the block store -> the local file that is to be copied there
    copies: dict[str, Path] = field(default_factory=dict)
    stored_bytes: int = 0  #: real bytes of input to generate or to copy; 0: it is there already


def prepare(
    request: RunRequest, topology: Topology, seed: int, blocks_of: BlocksOf | None
) -> Prepared:
    """The plan of a single job; ``blocks_of`` asks the cluster that is up, None if none is.

    Raises ``UsageError`` for a request that makes no sense, ``InputError`` for unreadable input.
    """
    [job] = request.jobs
    sample = find(job)
    folder = f"/runs/{sample.name}-{secrets.token_hex(3)}"
    source, copies = _input(request.inputs, f"{folder}/input", cluster_is_up=blocks_of is not None)
    stored_bytes = 0 if request.inputs else incoming_bytes(request, topology)
    if source and not copies and request.reduces is None:
        assert blocks_of is not None, "the input is in the store of a cluster that is up"
        blocks = blocks_of(source)
    else:
        sizes = [readable_size(local) for local in copies.values()] or [stored_bytes]
        blocks = sum(-(-size // topology.stored_block_bytes) for size in sizes)
    plan = sample.plan(
        Request(
            folder=folder,
            input=source,
            output=_output(request.output),
            stored_bytes=stored_bytes,
            parts=-(-stored_bytes // topology.stored_block_bytes),
            reduces=request.reduces or default_reduces(topology, blocks),
            seed=seed,
            params=dict(request.params),
        )
    )
    if plan.needs_input and not request.inputs:
        raise UsageError(f"{job}: reads input: need --input FILE")
    for local in copies.values():
        plan.input.check(str(local), readable_size(local))
        stored_bytes += readable_size(local)
    if copies and plan.check_sizes is not None:
        plan.check_sizes([readable_size(local) for local in copies.values()])
    return Prepared(name=sample.name, plan=plan, copies=copies, stored_bytes=stored_bytes)


def incoming_bytes(request: RunRequest, topology: Topology) -> int:
    """Real bytes that a single job's input adds to the block store: generated, or copied there.

    Raises as ``prepare`` does.
    """
    find(request.jobs[0])
    if request.inputs and request.size_bytes is not None:
        raise UsageError("--size: --input says what to read: need one of the two")
    if not request.inputs:
        return topology.stored_size(request.input_bytes)
    paths = [path for path in request.inputs if not path.startswith(STORE_PREFIX)]
    return sum(readable_size(Path(path)) for path in paths)


def _input(
    inputs: tuple[str, ...], folder: str, *, cluster_is_up: bool
) -> tuple[str, dict[str, Path]]:
    """The input's path in the block store ("" = none), and which local files to copy there."""
    stored = [path.removeprefix(STORE_PREFIX) for path in inputs if path.startswith(STORE_PREFIX)]
    if stored:
        if len(inputs) > 1:
            raise UsageError(f"--input {inputs[1]}: need a single file or folder with dfs:")
        if not cluster_is_up:
            raise UsageError(f"--input {inputs[0]}: no cluster is up: railyard up starts one")
        return _stored_path("--input", stored[0]), {}
    # In the store, names are plain text, as paths of the local file system need not be.
    called = {path: printable(Path(path).name) for path in inputs}
    for file, times in Counter(called[path] for path in inputs).items():
        if times > 1:
            raise UsageError(f"--input: {times} files are called {file}: need different names")
    for path in inputs:
        readable_size(Path(path))
    copies = {f"{folder}/{file}": Path(path) for path, file in called.items()}
    return (next(iter(copies)) if len(copies) == 1 else folder if copies else ""), copies


def _output(path: str | None) -> str:
    if path is None:
        return ""
    folder = _stored_path("--output", path)
    if folder == "/":
        raise UsageError(f"--output {path}: exists already: need the path of a new folder")
    return folder


def _stored_path(option: str, path: str) -> str:
    try:
        return join_path(parse_path(path))
    except PeerError as error:
        raise UsageError(f"{option} {path}: {error}") from None
