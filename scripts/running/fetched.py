"""Inputs that are in the block store of the cluster that is up, as local files.

For what does not run there: simulations, comparisons on clusters of their own, and measuring.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import Refused, UsageError
from railyard.cluster.files.resources import free_bytes
from railyard.cluster.units import format_size
from railyard.dfs.client import DfsClient
from railyard.jobs.mixes.given import STORE_PREFIX, split_input
from railyard.jobs.mixes.mixes import Mix
from railyard.scripts.clusters.folders import current_folder
from railyard.scripts.clusters.session import connected
from railyard.scripts.running.files import copy_out

#: Returns a mix that reads local files in place of those in the block store.
Localized = Callable[[Mix], Mix]


@contextmanager
def fetched_inputs() -> Iterator[Localized]:
    """Fetch what mixes read of the block store; the local files are removed at the end.

    The function raises ``UsageError`` if no cluster is up, or has no such file, or if the disk has
    no room for it.
    """
    with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
        fetched: dict[str, str] = {}

        def local(text: str) -> str:
            name, path = split_input(text)
            if not path.startswith(STORE_PREFIX):
                return text
            if path not in fetched:
                fetched[path] = str(_fetch(path, Path(scratch) / str(len(fetched))))
            return f"{name}={fetched[path]}" if name else fetched[path]

        def localized(mix: Mix) -> Mix:
            jobs = [
                msgspec.structs.replace(job, inputs=tuple(map(local, job.inputs)))
                for job in mix.jobs
            ]
            return msgspec.structs.replace(mix, jobs=tuple(jobs))

        yield localized


def _fetch(path: str, folder: Path) -> Path:
    """Fetch a file or folder of the block store to ``folder``, under its own name."""
    up = current_folder()
    if up is None:
        raise UsageError(f"input {path}: no cluster is up: railyard up starts one")
    config = ClusterConfig.load(up)
    stored = path.removeprefix(STORE_PREFIX)
    target = folder / (stored.rstrip("/").rsplit("/", 1)[-1] or "all")
    with connected(up, config) as session:
        store = DfsClient(session.transport, config.topology)
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
