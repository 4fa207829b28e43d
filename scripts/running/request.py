"""From what a person typed after ``railyard run`` to a plan, checked before any cluster starts."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from railyard.cluster.errors import PeerError, UsageError
from railyard.cluster.shown import printable
from railyard.cluster.topology import Topology
from railyard.dfs.paths import join_path, parse_path
from railyard.jobs.samples.catalog import find
from railyard.jobs.samples.sample import Plan, Request, default_reduces
from railyard.scripts.running.files import readable_size

#: Marks an input as a file or folder of the block store.
STORE_PREFIX = "dfs:"
DEFAULT_SIZE_BYTES = 10 * 10**9


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What was typed; None and empty where nothing was."""

    job: str
    inputs: tuple[str, ...] = ()
    output: str | None = None
    size_bytes: int | None = None  #: the model's
    reduces: int | None = None
    params: tuple[tuple[str, str], ...] = ()
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A plan, and what it takes to carry it out."""

    name: str  #: of the workload
    plan: Plan
    #: path in the block store -> the local file that is to be copied there
    copies: dict[str, Path] = field(default_factory=dict)
    stored_bytes: int = 0  #: real bytes of input to generate or to copy; 0: it is there already


def prepare(wish: Wish, topology: Topology, *, cluster_is_up: bool) -> Prepared:
    """Raise ``UsageError`` for a wish that makes no sense, ``InputError`` for unreadable input."""
    sample = find(wish.job)
    _require_one_source(wish)
    folder = f"/runs/{sample.name}-{secrets.token_hex(3)}"
    source, copies = _input(wish.inputs, f"{folder}/input", cluster_is_up=cluster_is_up)
    stored_bytes = 0 if wish.inputs else incoming_bytes(wish, topology)
    plan = sample.plan(
        Request(
            folder=folder,
            input=source,
            output=_output(wish.output),
            stored_bytes=stored_bytes,
            parts=-(-stored_bytes // topology.stored_block_bytes),
            reduces=wish.reduces or default_reduces(topology),
            seed=wish.seed,
            params=dict(wish.params),
        )
    )
    if plan.needs_input and not wish.inputs:
        raise UsageError(f"{wish.job}: reads input: need --input FILE")
    for local in copies.values():
        plan.input.check(str(local), readable_size(local))
        stored_bytes += readable_size(local)
    if copies and plan.check_sizes is not None:
        plan.check_sizes([readable_size(local) for local in copies.values()])
    return Prepared(name=sample.name, plan=plan, copies=copies, stored_bytes=stored_bytes)


def incoming_bytes(wish: Wish, topology: Topology) -> int:
    """Real bytes of what will be generated, or copied in; what is in the store is there already.

    Raises as ``prepare`` does.
    """
    find(wish.job)
    _require_one_source(wish)
    if not wish.inputs:
        size_bytes = DEFAULT_SIZE_BYTES if wish.size_bytes is None else wish.size_bytes
        return topology.stored_size(size_bytes)
    paths = [path for path in wish.inputs if not path.startswith(STORE_PREFIX)]
    return sum(readable_size(Path(path)) for path in paths)


def _require_one_source(wish: Wish) -> None:
    if wish.inputs and wish.size_bytes is not None:
        raise UsageError("--size: --input says what to read: need one of the two")


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
    names = {path: printable(Path(path).name) for path in inputs}
    for name, times in Counter(names[path] for path in inputs).items():
        if times > 1:
            raise UsageError(f"--input: {times} files are called {name}: need different names")
    for path in inputs:
        readable_size(Path(path))
    copies = {f"{folder}/{name}": Path(path) for path, name in names.items()}
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
