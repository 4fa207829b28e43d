"""Brings files of a job to a node: once, for all of its attempts there.

Whoever needs a file first fetches it, under a lock; the others wait for it.  Files can be run, as
Hadoop makes them; archives are unpacked, their files keep their modes.  Links are kept, too, but
nothing is written through one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
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
                tar.extractall(folder, filter=_checked_member)
        elif shown.endswith(_ZIPS):
            with zipfile.ZipFile(packed) as archive:
                for each in archive.infolist():
                    _extract(archive, each, folder)
        else:
            raise BadInput(f"{shown}: is no archive: need {', '.join((*_ZIPS, *_TARS))}")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise BadInput(f"{shown}: cannot be unpacked: {error}") from None


def _checked_member(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """A member as it is unpacked.  A link may point anywhere, as those of a venv do."""
    _check_way(Path(folder), member.name, member.issym())
    if member.issym():
        return tarfile.tar_filter(member, folder)
    return tarfile.data_filter(member, folder)


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> None:
    """Unpack a member of a zip, with its mode; a link as a link."""
    mode = member.external_attr >> 16
    _check_way(folder, member.filename, stat.S_ISLNK(mode))
    made = Path(archive.extract(member, folder))
    if stat.S_ISLNK(mode):
        target = os.fsdecode(made.read_bytes())
        made.unlink()
        made.symlink_to(target)
    elif (permission := mode & 0o777) and not member.is_dir():
        made.chmod(permission | 0o400)


def _check_way(folder: Path, name: str, is_link: bool) -> None:
    """Raise ``OSError`` if a member would be written through a link that was unpacked before."""
    path, names = folder, [each for each in name.split("/") if each not in ("", ".")]
    for number, each in enumerate(names, 1):
        path /= each
        if path.is_symlink() and not (is_link and number == len(names)):
            through = path.relative_to(folder)
            raise OSError(f"{name}: would be written through the link {through}")
