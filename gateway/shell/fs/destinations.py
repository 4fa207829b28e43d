"""Where put, get, cp and mv write to: into a folder that is there, or to the path itself.

What is wrong with the destination is said before anything of the sources is looked at, as in
Hadoop's shell.
"""

from __future__ import annotations

import posixpath
from pathlib import Path

from railyard.gateway.shell.fs.command import Command
from railyard.gateway.shell.paths import Wrong, status_of


class Destination:
    """A path of the block store as it was typed: a folder that is there, or a new name."""

    def __init__(self, command: Command, typed: str, sources: int) -> None:
        self._typed = typed
        self._path = command.path(typed)
        there = status_of(command.web, self._path)
        self._into = there is not None and there["type"] == "DIRECTORY"
        _check(command, typed, sources, there is not None, self._into)
        if there is None and status_of(command.web, posixpath.dirname(self._path)) is None:
            raise Wrong(f"`{typed}': No such file or directory: `{command.uri(typed)}'")

    def of(self, name: str) -> tuple[str, str]:
        """For a source of this name: (its path, how it is shown)."""
        if not self._into:
            return self._path, self._typed
        return posixpath.join(self._path, name), posixpath.join(self._typed, name)


class LocalDestination:
    """The same of a local path."""

    def __init__(self, command: Command, typed: str, sources: int) -> None:
        self._path = Path(typed)
        self._into = self._path.is_dir()
        _check(command, typed, sources, self._path.exists(), self._into)
        whole = self._path.absolute()
        if not whole.exists() and not whole.parent.is_dir():
            raise Wrong(f"`{typed}': No such file or directory: `file:{whole}'")

    def of(self, name: str) -> Path:
        """For a source of this name: its path."""
        return self._path / name if self._into else self._path


def _check(command: Command, typed: str, sources: int, is_there: bool, into: bool) -> None:
    if sources > 1 and not is_there:
        raise Wrong(f"`{typed}': No such file or directory")
    if sources > 1 and not into:
        raise Wrong(f"`{typed}': Is not a directory")
    if is_there and not into and not command.has("f"):
        raise Wrong(f"`{typed}': File exists")
