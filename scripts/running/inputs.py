"""The values of ``--input`` of ``railyard run``: local files to copy, or paths in the store.

--input corpus.txt                                   a local file
--input dfs:/corpus                                  a file or folder of the cluster that is up
--input orders=o.csv --input customers=dfs:/c        for a job that names its inputs
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from railyard.cluster.errors import PeerError, UsageError
from railyard.cluster.shown import printable
from railyard.dfs.paths import join_path, parse_path
from railyard.jobs.model import INPUT_NAME
from railyard.scripts.running.files import readable_size

#: Marks an input as a file or folder of the block store.
STORE_PREFIX = "dfs:"
#: "./a=b" is a file with such a name.
_NAMED = re.compile(rf"({INPUT_NAME.pattern})=(.+)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """A job's inputs."""

    path: str = ""  #: of the input in the store, or of the folder that all copies are in; "" = none
    named: tuple[tuple[str, str], ...] = ()  #: (name, path) of each, if they have names
    #: {path in the store: the local file that is to be copied there}
    copies: dict[str, Path] = field(default_factory=dict)
    stored: tuple[str, ...] = ()  #: paths that are in the store already

    def name_of(self, copy: str) -> str:
        """The name of the input that a copy belongs to; "" if it has none."""
        below = (name for name, path in self.named if copy == path or copy.startswith(f"{path}/"))
        return next(below, "")


def local_files(texts: tuple[str, ...]) -> list[Path]:
    """The local files among the values of ``--input``."""
    paths = [path for _, path in map(_split, texts)]
    return [Path(path) for path in paths if not path.startswith(STORE_PREFIX)]


def read_inputs(texts: tuple[str, ...], folder: str, *, cluster_is_up: bool) -> Inputs:
    """The values of ``--input``; copies go to ``folder``.

    Raises ``UsageError`` for invalid values, ``InputError`` for unreadable files.
    """
    given = [_split(text) for text in texts]
    names = list(dict.fromkeys(name for name, _ in given))
    if len(names) > 1 and "" in names:
        unnamed = next(path for name, path in given if not name)
        raise UsageError(f"--input {unnamed}: others have names: need NAME={unnamed}")
    if names in ([], [""]):
        return _of_one(tuple(path for _, path in given), folder, cluster_is_up=cluster_is_up)
    parts = {
        name: _of_one(
            tuple(path for other, path in given if other == name),
            f"{folder}/{name}",
            cluster_is_up=cluster_is_up,
        )
        for name in names
    }
    copies = {path: local for part in parts.values() for path, local in part.copies.items()}
    return Inputs(
        path=folder if copies else "",
        named=tuple((name, part.path) for name, part in parts.items()),
        copies=copies,
        stored=tuple(path for part in parts.values() for path in part.stored),
    )


def stored_path(option: str, path: str) -> str:
    """A path of the block store that a user gave; ``UsageError`` if it is none."""
    try:
        return join_path(parse_path(path))
    except PeerError as error:
        raise UsageError(f"{option} {path}: {error}") from None


def _split(text: str) -> tuple[str, str]:
    """The name of an input, "" if it has none, and its path."""
    named = _NAMED.fullmatch(text)
    return (named[1], named[2]) if named else ("", text)


def _of_one(paths: tuple[str, ...], folder: str, *, cluster_is_up: bool) -> Inputs:
    """One input of several local files, or of a file or folder of the store."""
    stored = [path.removeprefix(STORE_PREFIX) for path in paths if path.startswith(STORE_PREFIX)]
    if stored:
        if len(paths) > 1:
            raise UsageError(f"--input {paths[1]}: need a single file or folder with dfs:")
        if not cluster_is_up:
            raise UsageError(f"--input {paths[0]}: no cluster is up: railyard up starts one")
        path = stored_path("--input", stored[0])
        return Inputs(path=path, stored=(path,))
    # In the store, names are plain text, as paths of the local file system need not be.
    called = {path: printable(Path(path).name) for path in paths}
    for file, times in Counter(called[path] for path in paths).items():
        if times > 1:
            raise UsageError(f"--input: {times} files are called {file}: need different names")
    for path in paths:
        readable_size(Path(path))
    copies = {f"{folder}/{file}": Path(path) for path, file in called.items()}
    path = next(iter(copies)) if len(copies) == 1 else folder if copies else ""
    return Inputs(path=path, copies=copies)
