"""A plugin of pytest that fails a session whose tests left something behind, and names what.

Processes: what a session forks holds a descriptor of a file in memory, what it starts anew has a
variable in its environment; both are named after the session, so other sessions' are left alone.
Files: temporary folders of tests are made in one that belongs to the session, which must be empty
at the end; the checkout must have no more files than before; no socket may be left in ``tmp_path``.
Under xdist each worker looks after its own, and the controller after all of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

#: The variable that all processes of a session have: "SESSION" or "SESSION.WORKER".
_VARIABLE = "RAILYARD_TESTS"
#: What is in the checkout, or comes into it, and is no file of the project.
_IGNORED = {".git", ".venv", ".hypothesis", "__pycache__", "build", "dist", "railyard.egg-info"}
_SOURCES = (".py", ".md")
#: For how long processes that are about to end are waited for.
_PATIENCE_S = 5.0
#: Helpers of a pool in the test process, which end with it.
_POOLS = ("joblib.externals.loky", "multiprocessing.resource_tracker")


@dataclass
class Session:
    """One pytest process, and what was there when it began."""

    name: str  #: as in the variable
    scratch: Path  #: where its tests' temporary folders are
    checkout: Path
    files: set[Path] | None  #: of the checkout; None if another process looks after it
    descriptor: int  #: of the file in memory
    environment: dict[str, str | None]  #: what the variables that it sets were before
    tmp_path: Path | None  #: below which tests have their ``tmp_path``, once that is known
    left: list[str] = field(default_factory=list)  #: what was found at the end

    def finish(self) -> None:
        """Find what is left; end and remove it."""
        found = _processes_in_the_end(self.name)
        self.left += [f"process {pid}: {command}" for pid, command in found.items()]
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.left += [f"{_kind(path)} {path}" for path in sorted(self.scratch.iterdir())]
        if self.tmp_path is not None:
            self.left += [f"socket {path}" for path in _sockets(self.tmp_path)]
        if self.files is not None:
            new = _files(self.checkout, self.tmp_path) - self.files - _tracked(self.checkout)
            self.left += [f"{_kind(path)} {path}" for path in sorted(new)]

    def close(self) -> None:
        """Give back what the session had."""
        for name, value in self.environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        tempfile.tempdir = None
        os.close(self.descriptor)
        shutil.rmtree(self.scratch, ignore_errors=True)


_SESSION = pytest.StashKey[Session]()


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", {}).get("workerid")
    if worker is None:
        scratch = Path(tempfile.mkdtemp(prefix="ry", dir="/tmp"))  # short, for sockets' paths
        name = scratch.name
    else:
        scratch = Path(tempfile.gettempdir()) / worker
        scratch.mkdir()
        name = f"{os.environ[_VARIABLE]}.{worker}"
    settings = {
        _VARIABLE: name,
        "TMPDIR": str(scratch),
        "PYTEST_DEBUG_TEMPROOT": os.environ.get("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir()),
    }
    before = {name: os.environ.pop(name, None) for name in (*settings, "RAILYARD_HOME")}
    os.environ.update(settings)
    tempfile.tempdir = None  # it is looked for anew
    given = config.getoption("basetemp")
    tmp_path = Path(given) if given else None
    config.stash[_SESSION] = Session(
        name=name,
        scratch=scratch,
        checkout=config.rootpath,
        files=_files(config.rootpath, tmp_path) if worker is None else None,
        tmp_path=tmp_path,
        descriptor=os.memfd_create(f"{_VARIABLE}={name}"),
        environment=before,
    )


@pytest.fixture(scope="session", autouse=True)
def _where_tmp_path_is(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pytestconfig.stash[_SESSION].tmp_path = tmp_path_factory.getbasetemp()


@pytest.hookimpl(trylast=True)  # the workers have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    own = session.config.stash[_SESSION]
    own.finish()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = own.left
    elif own.left:
        session.exitstatus = max(session.exitstatus, pytest.ExitCode.TESTS_FAILED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    left = getattr(node, "workeroutput", {}).get("left", [])
    node.config.stash[_SESSION].left += left


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in dict.fromkeys(config.stash[_SESSION].left):
        terminalreporter.write_line(f"LEFT BEHIND: {line}", red=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _SESSION in config.stash:
        config.stash[_SESSION].close()


def _processes_in_the_end(session: str) -> dict[int, str]:
    """The processes of a session that are still there after a while, and their command lines."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while found := dict(_processes(session)):
        if time.monotonic() > deadline_s:
            break
        time.sleep(0.02)
    return found


def _processes(session: str) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        if pid == os.getpid():
            continue
        with suppress(OSError):  # it has ended, or is another user's
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").split()
            command = b" ".join(words).decode("utf-8", "replace")
            if any(pool in command for pool in _POOLS):
                continue
            if _belongs(folder, session):
                yield pid, command[:200]


def _belongs(folder: Path, session: str) -> bool:
    """Whether the process with this folder of ``/proc`` is one of a session or of its workers."""
    mark = f"{_VARIABLE}={session}"
    marks = [os.fsdecode(entry) for entry in (folder / "environ").read_bytes().split(b"\0")]
    for descriptor in (folder / "fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed
            marks.append(str(descriptor.readlink()).removeprefix("/memfd:").split(" ")[0])
    return any(found == mark or found.startswith(f"{mark}.") for found in marks)


def _files(checkout: Path, tmp_path: Path | None) -> set[Path]:
    """The files and empty folders of the checkout, but for sources: people write them meanwhile."""
    found: set[Path] = set()
    for folder, folders, files in os.walk(checkout):
        folders[:] = [
            name
            for name in folders
            if name not in _IGNORED
            and not name.endswith("_cache")
            and Path(folder, name) != tmp_path
        ]
        found.update(Path(folder, name) for name in files if not name.endswith(_SOURCES))
        if not folders and not files:
            found.add(Path(folder))
    return found


def _tracked(checkout: Path) -> set[Path]:
    """The files of the checkout that git knows: they may have come by a change of branches."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=checkout, capture_output=True)
    return {checkout / os.fsdecode(name) for name in listed.stdout.split(b"\0")}


def _sockets(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if _kind(path) == "socket")


def _kind(path: Path) -> str:
    with suppress(FileNotFoundError):  # it has gone meanwhile
        mode = path.lstat().st_mode
        if stat.S_ISSOCK(mode):
            return "socket"
        if stat.S_ISLNK(mode):
            return "link"
        if stat.S_ISDIR(mode):
            return "folder"
    return "file"
