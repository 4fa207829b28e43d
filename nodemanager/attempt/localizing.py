"""Brings files of a job to a node: once, for all of its attempts there.

Whoever needs a file first fetches it, under a lock; the others wait for it.  Files can be run, as
Hadoop makes them; archives are unpacked, their files keep their modes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import JobId, NodeId
from railyard.dfs.client import DfsClient
from railyard.jobs.taskio import BadInput, ProgramFile

_LOOK_S = 0.05
_MODE = 0o755
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_ZIPS = (".zip", ".jar")


def localized_folders(folder: RunFolder, node: NodeId) -> Path:
    """Where a node keeps the files of jobs, a folder for each."""
    return folder.node(node) / "localized"


def localized_folder(folder: RunFolder, node: NodeId, job: JobId) -> Path:
    """Where a node keeps the files of a job."""
    return localized_folders(folder, node) / job


class Localizer:
    """The files of a job on a node.

    ``client`` makes a client of the block store when one is needed; ``pause`` waits for so many
    seconds.
    """

    def __init__(
        self, folder: Path, client: Callable[[], DfsClient], pause: Callable[[float], None]
    ) -> None:
        self._folder = folder
        self._client = client
        self._pause = pause

    def local(self, file: ProgramFile) -> Path:
        """Where a file is on the node; raises ``BadInput`` for an archive that is none."""
        name = hashlib.sha256(f"{file.unpacked} {file.path}".encode()).hexdigest()[:32]
        path = self._folder / name
        if path.exists():
            return path
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _locked(lock):
                self._pause(_LOOK_S)
            if not path.exists():
                self._bring(file, path)
        finally:
            os.close(lock)
        return path

    def _bring(self, file: ProgramFile, path: Path) -> None:
        coming, client = path.with_name(f"{path.name}.new"), self._client()
        if coming.is_dir():
            shutil.rmtree(coming)
        if not file.unpacked:
            _copy(client, file.path, coming)
            coming.rename(path)
            return
        packed = path.with_name(f"{path.name}.packed")
        _copy(client, file.path, packed)
        _unpack(packed, file.path, coming)
        packed.unlink()
        coming.rename(path)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _copy(client: DfsClient, source: str, target: Path) -> None:
    """A file, or a folder with all that is in it."""
    status = client.status(source)
    if status.folder:
        target.mkdir()
        for entry in client.list(source):
            _copy(client, entry.path, target / entry.path.rpartition("/")[2])
        return
    with open(target, "wb") as file:
        for piece in client.read(source):
            file.write(piece)
    target.chmod(_MODE)


def _unpack(packed: Path, shown: str, folder: Path) -> None:
    try:
        if shown.endswith(_TARS):
            with tarfile.open(packed) as tar:
                tar.extractall(folder, filter="data")
        elif shown.endswith(_ZIPS):
            with zipfile.ZipFile(packed) as archive:
                for each in archive.infolist():
                    made = Path(archive.extract(each, folder))
                    if (mode := each.external_attr >> 16 & 0o777) and not each.is_dir():
                        made.chmod(mode | 0o400)
        else:
            raise BadInput(f"{shown}: is no archive: need {', '.join((*_ZIPS, *_TARS))}")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise BadInput(f"{shown}: cannot be unpacked: {error}") from None
