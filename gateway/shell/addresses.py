"""URIs as people type them: which cluster one means, and the path in it.

A cluster's address is its gateway's, host and port.  It may be spelled in several ways; whatever
else is named is another cluster, and never this one.
"""

from __future__ import annotations

import re
import socket
from typing import NamedTuple

from railyard.cluster.errors import UsageError

#: Schemes of a block store.
STORES = ("hdfs", "webhdfs")
_URI = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):(?=/|$))?(?://([^/]*))?")
_PORT = re.compile(r":([0-9]{1,5})$")


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


def own_path(typed: str, *own: str) -> str:
    """The path that a URI names in the block store whose addresses are ``own``.

    ``UsageError`` if it is another store's, or of no block store.
    """
    uri = uri_of(typed)
    if uri.scheme and uri.scheme not in STORES:
        right = "need a path of the block store: /PATH or hdfs:///PATH"
        raise UsageError(f'{typed}: No FileSystem for scheme "{uri.scheme}": {right}')
    if uri.authority and not any(is_same(uri.authority, each) for each in own):
        raise UsageError(f"{typed}: {uri.authority} is another cluster: {_this(own)}")
    return uri.path


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
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as unused:
            unused.bind((address, 0))
    except OSError:
        return False
    return True


def _resolved(host: str, flags: int = 0) -> set[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError):
        return set()
    return {str(each[4][0]) for each in found}
