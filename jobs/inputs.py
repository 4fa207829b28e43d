"""The files that a user gives a job: ``--input`` of commands, ``input`` of a mix's jobs.

corpus.txt                              a local file
texts/  "texts/*.txt"  "t/**/*.txt"     all files of a folder and below it; all that match
dfs:/corpus                             a file or folder of the cluster that is up
dfs:/a,/b  "dfs:/logs/{may,june}-*"     several, as Hadoop has them
orders=o.csv  customers=dfs:/c          for a job that names its inputs

An input may be given several times, and is then all of these.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from railyard.cluster.errors import RailyardError, UsageError, printable, unknown_name
from railyard.jobs.model import INPUT_NAME
from railyard.jobs.plan import GivenFile, Plan

STORE_PREFIX = "dfs:"  #: marks an input as a file or folder of the block store
FILES_MAX = 10_000  #: of one input
#: "./a=b" is a file with such a name.
_NAMED = re.compile(rf"({INPUT_NAME.pattern})=(.+)", re.DOTALL)
#: Between paths of the store; other commas are part of a name, or of {a,b}.
_BETWEEN = re.compile(rf",(?={STORE_PREFIX}|/)")
_PATTERN = re.compile(r"[*?\[{]")  #: what makes a path of the store a pattern
#: The paths that match a pattern of the block store, in order.
Matching = Callable[[str], Sequence[str]]
_HIDDEN = (".", "_")  #: names that begin so are no data, as in Hadoop


class InputError(RailyardError):
    """A file that a job is to read is missing or can't be read."""


class LocalFile:
    """A local file, for readers of ranges (``jobs.taskio.FileReader``)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.stored_bytes = path.stat().st_size  #: length of the file

    def read(self, offset: int, length: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.read(length)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """A job's inputs."""

    path: str = ""  #: of the input in the store, or of the folder that all copies are in; "" = none
    #: (name, path) of each, if they have names or are several; "" = it has no name
    named: tuple[tuple[str, str], ...] = ()
    #: {path in the store: the local file that is to be copied there}
    copies: dict[str, Path] = field(default_factory=dict)
    stored: tuple[str, ...] = ()  #: paths that are in the store already

    def name_of(self, copy: str) -> str:
        """The name of the input that a copy belongs to; "" if it has none."""
        below = (name for name, path in self.named if copy == path or copy.startswith(f"{path}/"))
        return next(below, "")

    @property
    def sizes(self) -> list[int]:
        """Length in bytes of each copy; raises ``InputError`` for what can't be read."""
        return [readable_size(local) for local in self.copies.values()]


def readable_size(path: Path) -> int:
    """The size of a local file; raises ``InputError`` if it is missing or can't be read."""
    shown = printable(str(path))
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{shown}: is not a file")
        with path.open("rb"):
            return path.stat().st_size
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # a null byte in its name
        raise InputError(f"{shown}: cannot be read: {error}") from None


def split_input(text: str) -> tuple[str, str]:
    """The name of an input, "" if it has none, and its path."""
    named = _NAMED.fullmatch(text)
    return (named[1], named[2]) if named else ("", text)


def read_inputs(texts: Sequence[str], folder: str) -> Inputs:
    """The inputs that texts name; copies of local files go to ``folder`` of the block store.

    Raises ``UsageError`` for invalid values, ``InputError`` for files that can't be read.
    """
    by_name: dict[str, list[str]] = {}
    for text in texts:
        name, path = split_input(text)
        by_name.setdefault(name, []).append(path)
    if len(by_name) > 1 and "" in by_name:
        unnamed = by_name[""][0]
        raise UsageError(f"input {unnamed}: others have names: need NAME={unnamed}")
    found: list[tuple[str, str]] = []
    copies: dict[str, Path] = {}
    stored: list[str] = []
    for name, paths in by_name.items():
        below = f"{folder}/{name}" if name else folder
        own = _copies([path for path in paths if not path.startswith(STORE_PREFIX)], below)
        there = dict.fromkeys(_stored(path) for path in paths if path.startswith(STORE_PREFIX))
        if own:
            found.append((name, next(iter(own)) if len(own) == 1 else below))
        found += [(name, path) for path in there]
        copies |= own
        stored += there
    if any(by_name):
        first, named = folder if copies else "", tuple(found)
    else:
        first, named = found[0][1] if found else "", tuple(found) if len(found) > 1 else ()
    return Inputs(path=first, named=named, copies=copies, stored=tuple(stored))


def expanded(texts: Sequence[str], matching: Matching | None) -> tuple[str, ...]:
    """Texts with one path of the store each, for lists and patterns of them.

    ``matching`` asks the cluster that is up; None if none is.  ``UsageError`` for a pattern that
    nothing matches.
    """
    paths: list[str] = []
    for text in texts:
        name, path = split_input(text)
        for each in _BETWEEN.split(path) if path.startswith(STORE_PREFIX) else ():
            stored = each.removeprefix(STORE_PREFIX)
            found = [stored] if not _PATTERN.search(stored) else _matched(stored, matching)
            before = f"{name}={STORE_PREFIX}" if name else STORE_PREFIX
            paths += [before + one for one in found]
        if not path.startswith(STORE_PREFIX):
            paths.append(text)
    return tuple(paths)


def _matched(pattern: str, matching: Matching | None) -> Sequence[str]:
    shown = f"input {STORE_PREFIX}{pattern}"
    if matching is None:
        raise UsageError(f"{shown}: no cluster is up: railyard up starts one")
    found = matching(pattern)
    if not found:
        raise UsageError(f"{shown}: matches no file: need one that does")
    return found


def check_given(job: str, given: Inputs, plan: Plan, sizes: Sequence[int]) -> None:
    """Raise unless a job gets the inputs that it reads, and local files are of their formats.

    ``sizes``: length in bytes of each of ``given.copies``.  ``UsageError`` or ``BadInput``.
    """
    _check_names(job, given, plan)
    files: list[GivenFile] = []
    for (path, local), size in zip(given.copies.items(), sizes, strict=True):
        called = given.name_of(path)
        if size or len(given.copies) == 1:  # of several, some may be empty
            plan.formats.get(called, plan.input).check(str(local), size)
        files.append(GivenFile(called, str(local), LocalFile(local)))
    if files and plan.check_files is not None:
        plan.check_files(files)
    if files and plan.check_sizes is not None:
        plan.check_sizes(sizes)


def _check_names(job: str, given: Inputs, plan: Plan) -> None:
    """Raise ``UsageError`` unless input is given where it is needed, by the names the job has."""
    names, has_input = [name for name, _ in given.named if name], bool(given.path or given.named)
    if names and not plan.formats:
        raise UsageError(f"{job}: its input has no name: need --input FILE")
    for name in names:
        if name not in plan.formats:
            raise unknown_name(f"input of {job}", name, list(plan.formats))
    for name in plan.formats:
        if name not in names and (has_input or plan.needs_input):
            raise UsageError(f"{job}: reads {', '.join(plan.formats)}: need --input {name}=FILE")
    if plan.needs_input and not has_input:
        raise UsageError(f"{job}: reads input: need --input FILE, or input=FILE of this job")
    for name, times in Counter(name for name, _ in given.named).items():
        if times > 1 and not plan.reads_several:
            which = f"input {name}" if name else "its input"
            raise UsageError(f"{job}: {which} is {times} paths: need one file or folder")


def _stored(text: str) -> str:
    path = text.removeprefix(STORE_PREFIX)
    if not path.startswith("/"):
        raise UsageError(f"input {text}: need a path such as {STORE_PREFIX}/{path}")
    return path.rstrip("/") or "/"


def _copies(texts: Sequence[str], folder: str) -> dict[str, Path]:
    """The copies of local files, {path: file}; those of equal names get that of their folder."""
    # In the store, names are plain text, as paths of the local file system need not be.
    found = [(printable(name), path) for text in texts for name, path in _local(text)]
    times = Counter(name for name, _ in found)
    names = [
        name if times[name] == 1 else printable(f"{path.parent.name}-{name}".lstrip("-"))
        for name, path in found
    ]
    for name, count in Counter(names).items():
        if count > 1:
            raise UsageError(f"input: {count} files are called {name}: need different names")
    return {f"{folder}/{name}": path for name, (_, path) in zip(names, found, strict=True)}


def _local(text: str) -> list[tuple[str, Path]]:
    """(Name, path) of the local files that a text names, in order."""
    path, shown = Path(text), printable(text)
    exists = os.path.lexists(text) if "\0" not in text else False
    if exists and path.is_dir():
        found = _below(path)
        if not found:
            raise UsageError(f"input {shown}: has no files: need at least one")
    elif not exists and glob.has_magic(text):
        found = _matching(path)
        if not found:
            raise UsageError(f"input {shown}: matches no file: need one that does")
    else:
        found = [(path.name, path)]
    if len(found) > FILES_MAX:
        raise UsageError(f"input {shown}: {len(found)} files: need at most {FILES_MAX}")
    for _, each in found:
        readable_size(each)
    return found


def _below(folder: Path) -> list[tuple[str, Path]]:
    """The files of a folder and of those below it, but for those whose names are of no data."""
    found: list[tuple[str, Path]] = []

    def failed(error: OSError) -> None:
        raise InputError(f"{printable(str(error.filename))}: cannot be read: {error.strerror}")

    for root, folders, files in os.walk(folder, onerror=failed):
        folders[:] = sorted(name for name in folders if not name.startswith(_HIDDEN))
        paths = [Path(root) / name for name in sorted(files) if not name.startswith(_HIDDEN)]
        found += [(_name(folder, path), path) for path in paths]
    return found


def _name(base: Path, path: Path) -> str:
    """What a file below ``base`` is called in the store's folder: "2024-may.txt"."""
    return "-".join(path.relative_to(base).parts)


def _matching(pattern: Path) -> list[tuple[str, Path]]:
    parts = list(pattern.parts)
    fixed = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    base = Path(*parts[:fixed])
    return [
        (_name(base, path), path)
        for path in sorted(base.glob("/".join(parts[fixed:])))
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(base).parts)
    ]
