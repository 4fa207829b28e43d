"""Paths and URIs as people and programs type them: which cluster they mean, and what is there.

A cluster's address is its gateway's, host and port.  It may be spelled in several ways; whatever
else is named is another cluster, and never this one.  Not here: commands.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from errno import EEXIST
from functools import cached_property
from typing import IO, Any, NamedTuple

from railyard.cluster.errors import UsageError
from railyard.gateway.shell.web import Failed, Web, pieces

#: Schemes of a block store.
STORES = ("hdfs", "webhdfs")
_URI = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):(?=/|$))?(?://([^/]*))?")
_PORT = re.compile(r":([0-9]{1,5})$")
_MAGIC = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")


# Addresses ---------------------------------------------------------------------------------------
class Uri(NamedTuple):
    """The parts of what was typed; "" for what is not there."""

    scheme: str
    authority: str  #: "host:port", "host", or ""
    path: str
    start: str  #: all that stands before the path


def uri_of(typed: str) -> Uri:
    """Take apart a path or URI, as Hadoop's ``Path`` does: //host/x has an authority, too."""
    match = _URI.match(typed)
    assert match is not None, "every part may be missing"
    scheme, authority = (match[1] or "").lower(), match[2] or ""
    path = typed[match.end() :]
    if not path and (scheme or authority):
        path = "/"
    return Uri(scheme, authority, path, match[0])


def check_own(given: str, value: str, *own: str) -> None:
    """Raise ``UsageError`` unless an option's value, "host:port", is one of this cluster's."""
    authority = uri_of(value).authority or value
    if not any(is_same(authority, each) for each in own):
        raise UsageError(f"{given}: {value or 'nothing'} is another cluster: {_this(own)}")


def local_path(typed: str) -> str:
    """The path of a file of this machine; file:/x and file:///x are /x."""
    uri = uri_of(typed)
    is_local = uri.scheme == "file" and uri.authority in ("", "localhost")
    return uri.path if is_local else typed


def is_same(authority: str, own: str) -> bool:
    """Whether host and port are those of ``own``; without a port, the host is."""
    host, port = _parts(authority)
    own_host, own_port = _parts(own)
    if port and port != own_port:
        return False
    if host == own_host or (_is_here(host) and _is_here(own_host)):
        return True
    return bool(port) and not _resolved(host).isdisjoint(_resolved(own_host))


def has_port(authority: str) -> bool:
    """Whether it says a port."""
    return bool(_parts(authority)[1])


def _this(own: tuple[str, ...]) -> str:
    return "this one is " + " and ".join(f"webhdfs://{each}" for each in dict.fromkeys(own))


def _parts(authority: str) -> tuple[str, str]:
    """(Host in small letters, port or "")"""
    where = authority.rpartition("@")[2].lower()
    port = _PORT.search(where)
    host = where[: port.start()] if port else where
    return host.strip("[]").rstrip("."), port[1] if port else ""


def _is_here(host: str) -> bool:
    """Whether a host is this machine: by one of its own names, or an address that it has."""
    name = socket.gethostname().lower()
    if host in ("localhost", name, name.partition(".")[0]):
        return True
    return any(_has(address) for address in _resolved(host, socket.AI_NUMERICHOST))


def _has(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as unused:
        unused.bind((address, 0))
        return True
    return False


def _resolved(host: str, flags: int = 0) -> set[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError):
        return set()
    return {str(each[4][0]) for each in found}


# Paths -------------------------------------------------------------------------------------------
class Wrong(Exception):
    """A command failed on a path: the text after its name."""


class Found:
    """A file or folder of the block store, there or yet to be made."""

    def __init__(
        self, web: Web, shown: str, path: str, status: dict[str, Any] | None = None
    ) -> None:
        """``shown``: as it was typed; ``status``: None = it is looked up when it is needed."""
        self.web = web
        self.shown = shown
        self.path = path
        self.name = posixpath.basename(path) or "root"
        if status is not None:
            self.status = status

    @cached_property
    def status(self) -> dict[str, Any]:
        """{} if there is nothing."""
        return status_of(self.web, self.path)

    @property
    def uri(self) -> str:
        """Its whole address, as errors about a missing parent have it."""
        return f"webhdfs://{self.web.address}{self.path}"

    def exists(self) -> bool:
        return bool(self.status)

    @property
    def is_folder(self) -> bool:
        return self.status.get("type") == "DIRECTORY"

    @property
    def parent(self) -> Found:
        return Found(self.web, "", posixpath.dirname(self.path))

    def below(self, name: str, status: dict[str, Any] | None = None) -> Found:
        """What is, or will be, in it under a name."""
        shown, path = posixpath.join(self.shown, name), posixpath.join(self.path, name)
        return Found(self.web, shown, path, status)

    def entries(self) -> list[Found]:
        statuses = self.web.ask("GET", self.path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        return [self.below(status["pathSuffix"], status) for status in statuses]

    def everything(self) -> Iterator[Found]:
        """It, and all that is below it: each folder before its entries."""
        yield self
        for entry in self.entries() if self.is_folder else ():
            yield from entry.everything()

    def pieces(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        return pieces(self.web.read(self.path, offset, length))

    # As what is copied, or copied to -------------------------------------------------------------
    def make_folder(self) -> None:
        self.web.ask("PUT", self.path, "MKDIRS")

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Its bytes, by a connection of their own: the other one may write them."""
        with closing(self.web.another()) as reader:
            yield reader.read(self.path)

    def write(self, data: IO[bytes], kept: dict[str, Any], *, replaces: bool) -> None:
        """Make it of bytes, with the attributes that are kept of another one."""
        if not replaces and self.exists():
            raise FileExistsError(EEXIST, "File exists")
        self.web.write(self.path, data, overwrite=str(replaces).lower())
        self.set_attributes(kept)

    def attributes(self) -> dict[str, Any]:
        """Times, permission, owner and group."""
        return self.status

    def set_attributes(self, kept: dict[str, Any]) -> None:
        if kept:
            ask, times = self.web.ask, {"modificationtime": kept["modificationTime"]}
            ask("PUT", self.path, "SETPERMISSION", permission=kept["permission"])
            ask("PUT", self.path, "SETOWNER", owner=kept["owner"], group=kept["group"])
            ask("PUT", self.path, "SETTIMES", accesstime=kept["accessTime"], **times)


def absolute(typed: str, user: str, *own: str) -> str:
    """The path in the block store; relative ones begin at the user's own folder.

    ``own``: the store's addresses; ``UsageError`` for a path of another, or of no block store.
    """
    uri = uri_of(typed)
    if uri.scheme and uri.scheme not in STORES:
        right = "need a path of the block store: /PATH or hdfs:///PATH"
        raise UsageError(f'{typed}: No FileSystem for scheme "{uri.scheme}": {right}')
    if uri.authority and not any(is_same(uri.authority, each) for each in own):
        raise UsageError(f"{typed}: {uri.authority} is another cluster: {_this(own)}")
    return posixpath.normpath(posixpath.join(f"/user/{user}", uri.path)).replace("//", "/")


def status_of(web: Web, path: str) -> dict[str, Any]:
    """The status of a path; {} if there is nothing."""
    try:
        return dict(web.ask("GET", path, "GETFILESTATUS")["FileStatus"])
    except Failed as failed:
        if failed.status == 404:
            return {}
        raise


def find(web: Web, typed: str) -> list[Found]:
    """What a path or glob stands for; raises ``Wrong`` if nothing does."""
    found = [found for each in braces(typed) for found in _find(web, each)]
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
        found = [Found(web, typed, path)]
    else:
        found = [Found(web, f"{uri_of(typed).start}/", "/")]
        for name in path[1:].split("/"):
            found = [below for each in found if each.is_folder for below in _matching(each, name)]
    return [each for each in found if each.exists()]


def _matching(folder: Found, name: str) -> list[Found]:
    if not _MAGIC.search(name):
        return [folder.below(name)]
    pattern = re.compile(fnmatch.translate(name.replace("[^", "[!")))
    return [each for each in folder.entries() if pattern.match(each.name)]
