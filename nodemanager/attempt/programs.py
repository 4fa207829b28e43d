"""Runs the programs of a task: bytes go in and come out by pipes, in a working directory.

Files of a job are brought to a node once, for all of its attempts there.  Whoever needs one first
fetches it, under a lock; the others wait for it.  Files can be run, as Hadoop makes them; archives
are unpacked, their files keep their modes.  Links stay links, but nothing is written through
one.

A program may write much before it reads anything, stop reading before the end of its input, or
leave children that keep its pipes open; none of these keeps the attempt waiting.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import select
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from railyard.cluster.fileheads import PROGRAM_HEAD_BYTES, first_line_fault, interpreter_of
from railyard.cluster.ids import AttemptId, NodeId
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.client import DfsClient
from railyard.jobs.formats import Cutter
from railyard.jobs.taskio import BadInput, Buffer, JobError, Program, ProgramFile

_LOCK_AGAIN_S = 0.05
_MODE = 0o755
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_ZIPS = (".zip", ".jar")


def localized_folders(folder: RunFolder, node: NodeId) -> Path:
    """Where a node keeps the files of jobs, a folder for each."""
    return folder.node(node) / "localized"


@dataclass(eq=False)
class Localizer:
    """The files of a job on a node."""

    _folder: Path
    _client: Callable[[], DfsClient]  #: made when needed
    _pause: Callable[[float], None]  #: takes seconds

    def local(self, file: ProgramFile) -> Path:
        """Where a file is on the node; raises ``BadInput`` for an archive that is none."""
        name = hashlib.sha256(f"{file.unpacked} {file.path}".encode()).hexdigest()[:32]
        path = self._folder / name
        if path.exists():
            return path
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                self._pause(_LOCK_AGAIN_S)
            if not path.exists():
                self._bring(file, path)
        finally:
            os.close(lock)
        return path

    def _bring(self, file: ProgramFile, path: Path) -> None:
        coming = path.with_name(f"{path.name}.new")
        if coming.is_dir():
            shutil.rmtree(coming)
        copied = path.with_name(f"{path.name}.packed") if file.unpacked else coming
        _copy(self._client(), file.path, copied)
        if file.unpacked:
            _unpack(copied, file.path, coming)
            copied.unlink()
        coming.rename(path)


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


#: The folder, within an attempt's own, in which its programs run.
WORK = "work"
_READ_BYTES = 2**20
_LINE_BYTES_MAX = 2**16
_TURN_S = 0.25
#: Exit statuses by which a shell and ``env`` say that they can't run a program.
_NOT_RUN = (126, 127)
_CLOSED = select.POLLHUP | select.POLLERR


@dataclass(eq=False)
class ProgramRunner:
    """A ``jobs.taskio.Programs``."""

    attempt: AttemptId
    _folder: Path  #: in which they run; it is made
    _environment: Mapping[str, str]
    _localizer: Localizer
    _report: Callable[[], None]  #: shows now and then that the attempt is alive
    _prepared: bool = False

    def run(
        self, program: Program, data: Iterable[Buffer], on_line: Callable[[bytes], bool]
    ) -> Iterator[Buffer]:
        self._prepare(program.files)
        environment = {**os.environ, **self._environment, **program.environment}
        environment["PATH"] = f"{self._folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        environment["PWD"] = str(self._folder)
        try:
            process = subprocess.Popen(
                program.words,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            why = str(error)
            if isinstance(error, OSError):
                why = self._explained(program.words[0], environment["PATH"], error)
            raise JobError(f"cannot run program {program.words[0]!r:.200}: {why}") from None
        with process:
            try:
                yield from _Pipes(process, program, iter(data), on_line, self._report).copied()
            finally:
                if process.poll() is None:
                    process.kill()
        if process.returncode and program.status_counts:
            status = process.returncode
            shown = f"code {status}" if status > 0 else f"signal {-status}"
            file = self._folder / program.words[0]
            if status in _NOT_RUN and file.is_file():
                fault = first_line_fault(file.name, _head_of(file))
                shown += f": {fault}" if fault else ""
            raise JobError(f"{program.words[0]}: subprocess failed with {shown}")

    def _prepare(self, files: tuple[ProgramFile, ...]) -> None:
        if self._prepared:
            return
        self._folder.mkdir(mode=0o700)
        for file in files:
            (self._folder / file.name).symlink_to(self._localizer.local(file))
        self._prepared = True

    def _explained(self, word: str, path: str, error: OSError) -> str:
        found = shutil.which(word, os.F_OK, path)
        file = self._folder / word if "/" in word else Path(found or self._folder / word)
        name = word.rpartition("/")[2]
        if not file.exists():
            if "/" in word.removeprefix("./") and (self._folder / name).exists():
                return f"{error.strerror}: need {name}, in the working folder"
            right = f"-files {name} puts a file of that name into the working folder"
            return f"{error.strerror}: {right}"
        if file.is_dir():
            return "is a folder"
        head = _head_of(file)
        if fault := first_line_fault(name, head):
            return fault
        if error.errno == errno.ENOENT and (interpreter := interpreter_of(head)):
            right = "need one that each node has, such as /usr/bin/env python3"
            return f"its first line names {interpreter}, which is not there: {right}"
        return str(error.strerror)


def _head_of(file: Path) -> bytes:
    with suppress(OSError), open(file, "rb") as opened:
        return opened.read(PROGRAM_HEAD_BYTES)
    return b"\0"


@dataclass(eq=False)
class _Pipes:
    """The pipes of a running program."""

    _process: subprocess.Popen[bytes]
    _program: Program
    _data: Iterator[Buffer]
    _on_line: Callable[[bytes], bool]
    _report: Callable[[], None]

    def __post_init__(self) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._unsent = memoryview(b"")
        self._lines = Cutter()  #: of standard error
        self._idle_s = 0.0  #: for how long it has neither read nor written, though it could
        self._poll = select.poll()
        self._ended = os.pidfd_open(process.pid)

    def copied(self) -> Iterator[Buffer]:
        """What comes out, while data goes in; ends once the program has ended."""
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)
        self._poll.register(self._stdin, select.POLLOUT)
        for readable in (self._stdout.fileno(), self._stderr.fileno(), self._ended):
            self._poll.register(readable, select.POLLIN)
        try:
            over = False
            while not over:
                begin_s = now_s()
                ready = dict(self._poll.poll(1000 * _TURN_S))
                self._idle_s = 0.0 if ready else self._idle_s + now_s() - begin_s
                over = self._ended in ready
                yield from self._turn(ready)
            yield from self._rest()
        finally:
            os.close(self._ended)

    def _turn(self, ready: dict[int, int]) -> Iterator[Buffer]:
        limit_s = self._program.timeout_s
        if limit_s and self._idle_s > limit_s:
            doing = "neither read nor wrote anything"
            raise JobError(f"{self._program.words[0]}: {doing} for {limit_s:g} s (task.timeout)")
        self._report()
        if self._stdout.fileno() in ready:
            piece = self._read(self._stdout.fileno())
            if piece:
                yield piece
        if self._stderr.fileno() in ready:
            self._take_stderr(self._read(self._stderr.fileno()))
        if not self._stdin.closed and self._stdin.fileno() in ready:
            self._feed(ready[self._stdin.fileno()])

    def _feed(self, event: int) -> None:
        """Send what the pipe takes; a program that reads no more gets no more."""
        if not self._unsent and not event & _CLOSED:
            self._unsent = memoryview(next(self._data, b"")).cast("B")
        done = bool(event & _CLOSED) or not self._unsent
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._stdin.fileno(), self._unsent) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            done = True
        if done:
            self._poll.unregister(self._stdin.fileno())
            self._stdin.close()

    def _rest(self) -> Iterator[Buffer]:
        """What is left in the pipes after its end; children that keep them open add nothing."""
        while piece := self._read(self._stdout.fileno()):
            yield piece
        while data := self._read(self._stderr.fileno()):
            self._take_stderr(data)
        if self._lines.waiting_bytes:
            self._take_stderr(b"\n")

    def _read(self, fd: int) -> bytes:
        """The next bytes; none at the end, or if none are there."""
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return b""
        if not data:
            with suppress(KeyError):
                self._poll.unregister(fd)
        return data

    def _take_stderr(self, data: bytes) -> None:
        """Take lines of standard error; what is not for us goes to the attempt's own."""
        whole = self._lines.cut(data)
        if self._lines.waiting_bytes > _LINE_BYTES_MAX:
            whole += self._lines.take_rest()
        lines = whole.splitlines(keepends=True)
        rest = [line for line in lines if not self._on_line(line.rstrip(b"\r\n"))]
        with suppress(OSError):  # the disk that it goes to may be full
            sys.stderr.buffer.write(b"".join(rest))
            sys.stderr.flush()
