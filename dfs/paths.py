"""Paths in the block store: "/in/part-r-00000".

Paths are absolute; there is no current folder, and "." and ".." are refused.
"""

from __future__ import annotations

import re
from functools import partial

from railyard.cluster.errors import PeerError

#: Kinds of refusals (``PeerError.kind``): what is wrong with the path of a request.
MISSING = "missing"
EXISTS = "exists"
NO_FOLDER = "no-folder"  #: a file where a folder is needed
IS_FOLDER = "is-folder"
NOT_EMPTY = "not-empty"
BUSY = "busy"  #: somebody else writes the file
BAD_PATH = "bad-path"  #: no path at all
SAFE_MODE = "safe-mode"  #: nothing is changed for now, whatever the path
LOCKED = "locked"  #: nothing is changed until somebody ends a safe mode that somebody has asked for
#: Limits of most file systems: UTF-8 bytes of a name, and of a path.
NAME_BYTES_MAX = 255
PATH_BYTES_MAX = 4096
_bad = partial(PeerError, kind=BAD_PATH)
_NO_NAMES = frozenset({"", ".", ".."})
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def parse_path(path: str) -> tuple[str, ...]:
    """Split ``path`` into its names; empty for "/".  A slash at the end is allowed.

    Raises ``PeerError`` for a path that is empty, relative, too long, not valid Unicode, or has
    an empty name, ".", ".." or a control character in it.
    """
    names = tuple(path[1:].split("/"))
    is_plain = path.isascii() and path.isprintable() and len(path) <= NAME_BYTES_MAX
    if is_plain and path[:1] == "/" and _NO_NAMES.isdisjoint(names):  # the fast path
        return names
    if not path:
        raise _bad("an empty path: need one such as /in/data")
    if not path.startswith("/"):
        raise _bad(f"{path!r}: a relative path: need one that starts with /")
    if path == "/":
        return ()
    if _bytes(path, path) > PATH_BYTES_MAX:
        raise _bad(f"{path[:40]!r}...: too long: need at most {PATH_BYTES_MAX} bytes")
    names = tuple(path.removesuffix("/")[1:].split("/"))
    for name in names:
        _check_name(name, path)
    return names


def join_path(names: tuple[str, ...]) -> str:
    """Join names to an absolute path."""
    return "/" + "/".join(names)


def _check_name(name: str, path: str) -> None:
    if not name:
        raise _bad(f"{path!r}: an empty name between two slashes")
    if name in (".", ".."):
        raise _bad(f"{path!r}: no {name!r} in paths: write the whole path")
    if _CONTROL.search(name):
        raise _bad(f"{path!r}: a control character in a name")
    if _bytes(name, path) > NAME_BYTES_MAX:
        raise _bad(f"{name[:40]!r}...: too long a name: need at most {NAME_BYTES_MAX} bytes")


def _bytes(text: str, path: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise _bad(f"{path!r}: not valid Unicode") from None
