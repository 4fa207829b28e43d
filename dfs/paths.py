"""Paths in the block store: "/in/part-r-00000".

They are absolute; there is no current folder, and "." and ".." mean nothing.
"""

from __future__ import annotations

import functools
import re

from cluster.errors import PeerError

#: As in most file systems: a name has at most this many bytes, a path at most that many.
NAME_BYTES_MAX = 255
PATH_BYTES_MAX = 4096
#: What most paths are like, and such a path has nothing wrong with it unless it is too long.
_ORDINARY = re.compile(r"(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99})+")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@functools.lru_cache(maxsize=2**13)
def parse_path(path: str) -> tuple[str, ...]:
    """The names along ``path``; none for "/".  A slash at the end is allowed.

    Raises ``PeerError`` for a path that is empty, relative, too long, not valid Unicode, or has
    an empty name, ".", ".." or a control character in it.
    """
    if len(path) <= PATH_BYTES_MAX and _ORDINARY.fullmatch(path):
        return tuple(path[1:].split("/"))
    if not path:
        raise PeerError("an empty path: need one such as /in/data")
    if not path.startswith("/"):
        raise PeerError(f"{path!r}: a relative path: need one that starts with /")
    if path == "/":
        return ()
    if _bytes(path, path) > PATH_BYTES_MAX:
        raise PeerError(f"{path[:40]!r}...: too long: need at most {PATH_BYTES_MAX} bytes")
    names = tuple(path.removesuffix("/")[1:].split("/"))
    for name in names:
        _check_name(name, path)
    return names


def parse_one_of_many(path: str) -> tuple[str, ...]:
    """The same; quicker for many paths in one folder, of which each is asked for once."""
    folder, _, name = path.rpartition("/")
    if folder and folder[-1] != "/" and len(path) <= PATH_BYTES_MAX and _NAME.fullmatch(name):
        return (*parse_path(folder), name)
    return parse_path(path)


def join_path(names: tuple[str, ...]) -> str:
    """The path of ``names``."""
    return "/" + "/".join(names)


def _check_name(name: str, path: str) -> None:
    if not name:
        raise PeerError(f"{path!r}: an empty name between two slashes")
    if name in (".", ".."):
        raise PeerError(f"{path!r}: no {name!r} in paths: write the whole path")
    if _CONTROL.search(name):
        raise PeerError(f"{path!r}: a control character in a name")
    if _bytes(name, path) > NAME_BYTES_MAX:
        raise PeerError(f"{name[:40]!r}...: too long a name: need at most {NAME_BYTES_MAX} bytes")


def _bytes(text: str, path: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise PeerError(f"{path!r}: not valid Unicode") from None
