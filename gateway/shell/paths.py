"""Paths of the block store as people and programs type them: URIs, relative ones, globs."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import Any

from railyard.gateway.shell.addresses import own_path, uri_of
from railyard.gateway.shell.web import Failed, Web

_MAGIC = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")


class Wrong(Exception):
    """A command failed on a path: the text after its name."""


class Found:
    """A path as it was typed, where it is, and its status."""

    def __init__(self, shown: str, path: str, status: dict[str, Any]) -> None:
        self.shown = shown
        self.path = path
        self.status = status

    @property
    def is_folder(self) -> bool:
        return bool(self.status["type"] == "DIRECTORY")

    def below(self, name: str, status: dict[str, Any]) -> Found:
        """An entry of it."""
        return Found(posixpath.join(self.shown, name), posixpath.join(self.path, name), status)


def absolute(typed: str, user: str, *own: str) -> str:
    """The path in the block store; relative ones begin at the user's own folder.

    ``own``: the store's addresses; ``UsageError`` for a path of another.
    """
    path = own_path(typed, *own)
    return posixpath.normpath(posixpath.join(f"/user/{user}", path)).replace("//", "/")


def status_of(web: Web, path: str) -> dict[str, Any] | None:
    """The status of a path; None if there is nothing."""
    try:
        return dict(web.ask("GET", path, "GETFILESTATUS")["FileStatus"])
    except Failed as failed:
        if failed.status == 404:
            return None
        raise


def entries_of(web: Web, path: str) -> list[dict[str, Any]]:
    """The entries of a folder, by name."""
    return list(web.ask("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"])


def find(web: Web, typed: str) -> list[Found]:
    """What a path or glob stands for; raises ``Wrong`` if nothing does."""
    found: list[Found] = []
    for each in braces(typed):
        found += _find(web, each)
    if not found:
        raise Wrong(f"`{typed}': No such file or directory")
    return found


def braces(text: str) -> list[str]:
    """``a{b,c}`` is ``ab`` and ``ac``."""
    match = _BRACES.search(text)
    if match is None:
        return [text]
    head, tail = text[: match.start()], text[match.end() :]
    parts = match.group(1).split(",")
    return list(dict.fromkeys(each for part in parts for each in braces(head + part + tail)))


def _find(web: Web, typed: str) -> list[Found]:
    path = absolute(typed, web.user, web.address)
    if not _MAGIC.search(typed):
        status = status_of(web, path)
        return [] if status is None else [Found(typed, path, status)]
    root = status_of(web, "/")
    assert root is not None, "/ always exists"
    found = [Found(f"{uri_of(typed).start}/", "/", root)]
    for name in path[1:].split("/"):
        found = [below for each in found if each.is_folder for below in _matching(web, each, name)]
    return found


def _matching(web: Web, folder: Found, name: str) -> list[Found]:
    if not _MAGIC.search(name):
        status = status_of(web, posixpath.join(folder.path, name))
        return [] if status is None else [folder.below(name, status)]
    pattern = re.compile(fnmatch.translate(name.replace("[^", "[!")))
    return [
        folder.below(status["pathSuffix"], status)
        for status in entries_of(web, folder.path)
        if pattern.match(status["pathSuffix"])
    ]
