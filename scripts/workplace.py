"""What a workload does with a cluster: put files into its block store, run jobs, read files."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

from cluster.ids import JobId
from cluster.messages.execution import JobPackage
from cluster.topology import Topology
from dfs.client import DfsClient
from jobs.model import StageSpec
from resourcemanager.messages import JobEnded, SubmitJob
from scripts.files import copy_in
from scripts.progress import View
from scripts.session import Session
from scripts.submission import run_to_end

#: Marks an input or output path as one of the block store.
STORE_PREFIX = "dfs:"


class Workplace:
    """A cluster, seen by one run of one workload."""

    def __init__(self, session: Session, view: View, name: str) -> None:
        self.topology: Topology = session.config.topology
        self.store = DfsClient(session.transport, self.topology, node=None, network=None)
        #: folder of the block store that no other run uses
        self.folder = f"/runs/{name}-{secrets.token_hex(3)}"
        self.jobs: list[JobId] = []  #: all that were submitted
        self._session = session
        self._view = view

    def put(self, local: str) -> str:
        """Bring a local file into the block store, or name one that is there; its path."""
        if local.startswith(STORE_PREFIX):
            path = local.removeprefix(STORE_PREFIX)
            self.store.status(path)  # refused if nothing is there
            return path
        path = f"{self.folder}/in/{Path(local).name}"
        self._view.say(f"storing {local} as {path}")
        copy_in(self.store, local, path)
        return path

    def run(
        self,
        name: str,
        package: JobPackage,
        stages: tuple[StageSpec, ...],
        *,
        inputs: tuple[str, ...] = (),
        output: str,
        replication: int = 0,
    ) -> JobEnded:
        """Run a job to its end; raises ``JobFailed``."""
        job, ended = run_to_end(
            self._session,
            SubmitJob(
                name=name,
                package=package,
                stages=stages,
                input_paths=inputs,
                output_path=output,
                output_replication=replication,
            ),
            self._view,
        )
        self.jobs.append(job)
        return ended

    def parts(self, folder: str) -> list[str]:
        """The paths of a job's output files, in order."""
        entries = self.store.list(folder)
        return [e.path for e in entries if not e.folder and "/part-" in e.path]

    def lines(self, folder: str) -> Iterator[bytes]:
        """The lines of a job's output, without their ends."""
        for path in self.parts(folder):
            rest = b""
            for piece in self.store.read(path):
                *whole, rest = (rest + bytes(piece)).split(b"\n")
                yield from whole
            if rest:
                yield rest


class StoredFile:
    """A file of the block store, for readers of ranges (``jobs.taskio.FileReader``)."""

    def __init__(self, store: DfsClient, path: str) -> None:
        self._store = store
        self._path = path
        self._stored_bytes = store.status(path).stored_length

    @property
    def stored_bytes(self) -> int:
        """Length of the file."""
        return self._stored_bytes

    def read(self, offset: int, length: int) -> memoryview:
        """Bytes from ``offset``; fewer than ``length`` only at the file's end."""
        return memoryview(b"".join(self._store.read(self._path, offset, length)))
