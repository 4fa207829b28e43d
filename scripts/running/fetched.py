"""Inputs in the block store of the cluster that is up: what there is, and local files of it.

These are for what does not run there: simulations, comparisons on clusters of their own, measuring.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import Refused, UsageError
from railyard.cluster.files.resources import free_bytes
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.units import format_size
from railyard.dfs.client import DfsClient
from railyard.dfs.matching import matching
from railyard.gateway.shell.paths import braces
from railyard.jobs.mixes.given import STORE_PREFIX, expanded, split_input
from railyard.jobs.mixes.mixes import Mix
from railyard.scripts.clusters.folders import current_folder
from railyard.scripts.clusters.session import connected
from railyard.scripts.running.files import copy_out

#: Returns a mix that reads local files in place of those in the block store.
Localized = Callable[[Mix], Mix]


@dataclass(frozen=True)
class UpStore:
    """What a cluster's block store has (``jobs.mixes.mixplans.StoredFiles``)."""

    up: RunFolder
    config: ClusterConfig

    def blocks(self, path: str) -> int:
        """Number of blocks of a file or folder; ``UsageError`` if there is none."""
        with self._client(path) as client:
            return client.usage(path).blocks

    def matching(self, pattern: str) -> list[str]:
        """The paths of what matches a pattern, in order."""
        with self._client(pattern) as client:
            found = [status for each in braces(pattern) for status in matching(client, each)]
            return list(dict.fromkeys(status.path for status in found))

    @contextmanager
    def _client(self, path: str) -> Iterator[DfsClient]:
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
            jobs = [
                msgspec.structs.replace(
                    job, inputs=tuple(map(local, expanded(job.inputs, matches)))
                )
                for job in mix.jobs
            ]
            return msgspec.structs.replace(mix, jobs=tuple(jobs))

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
    with connected(up.up, up.config) as session:
        store = DfsClient(session.transport, up.config.topology)
        try:
            size, free = store.usage(stored).stored_bytes, free_bytes(folder)
            if size > free:
                has = f"{folder.parent} has {format_size(free)} free"
                raise UsageError(
                    f"input {path}: has {format_size(size)}, but {has}: set TMPDIR to a larger disk"
                )
            folder.mkdir()
            copy_out(store, stored, target)
        except Refused as refused:
            raise UsageError(f"input {path}: {refused}") from None
    return target
