"""Files of the local file system and of the block store: copies, and inputs that are there.

What does not run on the cluster that is up reads local copies of its files: simulations,
comparisons on clusters of their own, measuring.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import NotDone, Refused, UsageError, printable
from railyard.cluster.ids import RackId
from railyard.cluster.machine import Exhausted, cause_of, free_bytes
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.units import format_size
from railyard.dfs.client import DfsClient, matching
from railyard.dfs.messages import FileStatus, PlacementHint
from railyard.gateway.shell.paths import braces
from railyard.jobs.inputs import STORE_PREFIX, expanded, split_input
from railyard.jobs.workloads.mixes import Mix
from railyard.resourcemanager.interface.forecast import Forecast
from railyard.resourcemanager.process.messages import DataPlan, PlanData
from railyard.runs.clusters import Session, connected
from railyard.runs.home import current_folder
from railyard.runs.room import require_room_for_file
from railyard.terminal.interrupts import deferred

#: In place of a local path: standard input or output.
STANDARD_STREAM = "-"
_PIECE_BYTES = 4 * 2**20
#: Of a path: one in a deep tree says nothing by its length.
_SHOWN_LETTERS_MAX = 200
#: Returns a mix that reads local files in place of those in the block store.
Localized = Callable[[Mix], Mix]
#: For the first replica, the second, ...: racks for it; empty or missing = the store's own rule.
Racks = tuple[tuple[RackId, ...], ...]


class NotCopied(Exhausted):
    """A file could not be copied though the request was valid, as with a full disk."""


def copy_in(
    store: DfsClient,
    local: str,
    path: str,
    *,
    overwrite: bool = False,
    replication: int = 0,
    racks: Racks = (),
) -> FileStatus:
    """Store a local file, "-" for standard input, piece by piece; ``racks`` for each replica.

    Raises ``UsageError`` if there is no such file, ``NotCopied`` if reading it breaks off.
    """
    hint = PlacementHint(racks=racks)
    write = partial(store.write, path, replication=replication, overwrite=overwrite, hint=hint)
    if local == STANDARD_STREAM:
        return write(_pieces(sys.stdin.buffer, "standard input"))
    try:
        file = open(local, "rb")  # noqa: SIM115 - errors of opening and of reading are handled apart
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{local}: cannot be read: {why}") from None
    with file:
        return write(_pieces(file, local))


def copy_out(store: DfsClient, path: str, local: Path) -> int:
    """Fetch a file or a folder to a new local path; returns its size in bytes.

    It is there whole or not at all: until then it has another name, beside the one asked for.
    Raises ``UsageError`` if something is there already, ``NotCopied`` if it cannot be written.
    """
    status = store.status(path)
    _require_nothing_at(local)
    try:
        with _unfinished(local) as made:
            total = _tree_out(store, path, made) if status.folder else _file_out(store, path, made)
            _require_nothing_at(local)
            made[0].rename(local)
            return total
    except OSError as error:
        shown = printable(str(error.filename or local), _SHOWN_LETTERS_MAX)
        raise NotCopied(f"{shown}: cannot be written: {cause_of(error, local.parent)}") from None


def _require_nothing_at(local: Path) -> None:
    if local.is_symlink() or local.exists():
        raise UsageError(f"{local}: exists already: need a path where nothing is yet")


@contextmanager
def _unfinished(local: Path) -> Iterator[list[Path]]:
    """The paths that a copy makes, its root first; they are removed if it fails."""
    made = [local.parent / f".railyard-{secrets.token_hex(4)}.part"]
    try:
        yield made
    except BaseException:
        with deferred():
            for path in reversed(made):
                with suppress(OSError):
                    _remove(path)
        raise


def _remove(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _tree_out(store: DfsClient, path: str, made: list[Path]) -> int:
    """Fetch a folder to the first path of ``made``, and note all that is made there."""
    total = 0
    waiting = [(path, made[0])]  # not recursive: a path may have thousands of folders
    made[0].mkdir()
    while waiting:
        folder, target = waiting.pop()
        for entry in store.list(folder):
            made.append(target / entry.path.rsplit("/", 1)[-1])
            if entry.folder:
                made[-1].mkdir()
                waiting.append((entry.path, made[-1]))
            else:
                total += _file_out(store, entry.path, made)
    return total


def _file_out(store: DfsClient, path: str, made: list[Path]) -> int:
    """Fetch a file to the last path of ``made``."""
    with made[-1].open("xb") as file:
        return sum(file.write(piece) for piece in store.read(path))


def _pieces(file: BinaryIO, name: str) -> Iterator[bytes]:
    try:
        while piece := file.read(_PIECE_BYTES):
            yield piece
    except OSError as error:
        raise NotCopied(f"{name}: cannot be read to its end: {error.strerror}") from None


def planned_racks(
    session: Session, path: str, stored_bytes: int, job: str = "", forecast: Forecast | None = None
) -> Racks:
    """The racks for the replicas of a file, or of all files of a folder, of so many real bytes.

    ``job``: the name of the job that will read it, if that is known; ``forecast`` is that job's.
    """
    size_bytes = stored_bytes * session.config.topology.scale
    asked = PlanData(path=path, size_bytes=size_bytes, job=job, forecast=forecast)
    return session.link("resourcemanager").ask(asked, DataPlan).racks


@contextmanager
def store_of(session: Session) -> Iterator[DfsClient]:
    """A client of a cluster's block store; what that refuses is its user's mistake.

    Raises ``UsageError`` for it, and ``NotDone`` for what could not be carried out.
    """
    try:
        yield DfsClient(session.transport, session.config.topology)
    except NotDone:
        raise
    except Refused as refused:
        raise UsageError(str(refused)) from None


def store_file(
    session: Session, local: str, path: str, *, overwrite: bool = False, replication: int = 0
) -> FileStatus:
    """Store a local file, "-" for standard input, where the scheduler wants it; checks the disk."""
    racks: Racks = ()
    if Path(local).is_file():
        size_bytes, topology = Path(local).stat().st_size, session.config.topology
        racks = planned_racks(session, path, size_bytes)
        require_room_for_file(session.folder, topology, printable(local), size_bytes, replication)
    with store_of(session) as store:
        return copy_in(
            store, local, path, overwrite=overwrite, replication=replication, racks=racks
        )


@dataclass(frozen=True)
class UpStore:
    """What a cluster's block store has (``jobs.workloads.mixes.StoredFiles``)."""

    up: RunFolder
    config: ClusterConfig

    def blocks(self, path: str) -> int:
        """Number of blocks of a file or folder; ``UsageError`` if there is none."""
        with self.client(path) as client:
            return client.usage(path).blocks

    def matching(self, pattern: str) -> list[str]:
        """The paths of what matches a pattern, in order."""
        with self.client(pattern) as client:
            found = [status for each in braces(pattern) for status in matching(client, each)]
            return list(dict.fromkeys(status.path for status in found))

    @contextmanager
    def client(self, path: str) -> Iterator[DfsClient]:
        with connected(self.up, self.config) as session:
            try:
                yield DfsClient(session.transport, self.config.topology)
            except Refused as refused:
                raise UsageError(f"input {STORE_PREFIX}{path}: {refused}") from None


@contextmanager
def fetched_inputs() -> Iterator[Localized]:
    """Fetch what mixes read of the block store; the local files are removed at the end.

    The function raises ``UsageError`` if no cluster is up, or has no such file, or if the disk has
    no room for it.
    """
    with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
        fetched: dict[str, str] = {}

        def matches(pattern: str) -> list[str]:
            return _store_of(f"{STORE_PREFIX}{pattern}").matching(pattern)

        def local(text: str) -> str:
            name, path = split_input(text)
            if not path.startswith(STORE_PREFIX):
                return text
            if path not in fetched:
                fetched[path] = str(_fetch(path, Path(scratch) / str(len(fetched))))
            return f"{name}={fetched[path]}" if name else fetched[path]

        def localized(mix: Mix) -> Mix:
            inputs = [tuple(map(local, expanded(job.inputs, matches))) for job in mix.jobs]
            pairs = zip(mix.jobs, inputs, strict=True)
            jobs = tuple(msgspec.structs.replace(job, inputs=files) for job, files in pairs)
            return msgspec.structs.replace(mix, jobs=jobs)

        yield localized


def _store_of(path: str) -> UpStore:
    """The block store of the cluster that is up; ``UsageError`` if none is."""
    up = current_folder()
    if up is None:
        raise UsageError(f"input {path}: no cluster is up: railyard up starts one")
    return UpStore(up, ClusterConfig.load(up))


def _fetch(path: str, folder: Path) -> Path:
    """Fetch a file or folder of the block store to ``folder``, under its own name."""
    up = _store_of(path)
    stored = path.removeprefix(STORE_PREFIX)
    target = folder / (stored.rstrip("/").rsplit("/", 1)[-1] or "all")
    with up.client(stored) as store:
        size, free = store.usage(stored).stored_bytes, free_bytes(folder)
        if size > free:
            has = f"{folder.parent} has {format_size(free)} free: set TMPDIR to a larger disk"
            raise UsageError(f"input {path}: has {format_size(size)}, but {has}")
        folder.mkdir()
        copy_out(store, stored, target)
    return target
