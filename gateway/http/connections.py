"""Connections to the gateway: whose they may be, how many, how long silent, what they may send.

A malformed request is answered with JSON, as any other error is, and its connection is closed.
Whose process is at the other end of a connection on this machine, Linux says (sock_diag); other
users of the machine are refused.  Sources: linux/inet_diag.h, linux/sock_diag.h, man 7 sock_diag.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import json
import logging
import os
import re
import socket
import struct
import time
from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import ip_address

from aiohttp import StreamReader, web

from railyard.cluster.errors import shortened
from railyard.gateway.http.answers import RemoteError

log = logging.getLogger(__name__)
_ACCESSES = log.getChild("accesses")
_ACCESSES.setLevel(logging.WARNING)  # none is logged

#: Connections at once; a further one is refused.
CONNECTIONS_MAX = 512
#: A client that has sent nothing of a request, or not all of its headers, is closed after this.
HEADERS_S = 60.0
#: Bytes of a header, of the first line, and of the headers' number.
_LINE_BYTES_MAX = 16 * 2**10
_HEADERS_MAX = 100
#: Bytes of a body that are held before the client has to wait.
_HELD_BYTES = 2**20
#: A line in the log for refused requests, at most so often.
_WARNED_EVERY_S = 10.0
_LETTERS_MAX = 300
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
#: Of requests to Linux about sockets, and its answers.
_SOCK_DIAG = 4  #: the netlink family
_BY_FAMILY = 20  #: the kind of a request for one socket
_REQUEST = 1
_ERROR = 2
_ANY_STATE = 0xFFFFFFFF
_NO_COOKIE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_OWNER = struct.Struct("=II")  #: user, inode
_OWNER_AT = _HEADER.size + 64
_BYTES_MAX = 4096


async def answer(runner: web.AppRunner, sockets: Iterable[socket.socket]) -> list[asyncio.Server]:
    """Begin to answer with an application where the sockets listen already."""
    await runner.setup()
    assert runner.server is not None, "it is set up"
    loop = asyncio.get_running_loop()
    connection = functools.partial(
        Connection,
        runner.server,
        loop=loop,
        access_log=_ACCESSES,
        keepalive_timeout=HEADERS_S,
        max_line_size=_LINE_BYTES_MAX,
        max_field_size=_LINE_BYTES_MAX,
        max_headers=_HEADERS_MAX,
        read_bufsize=_HELD_BYTES,
        auto_decompress=False,  # a file is stored as it was sent
    )
    return [await loop.create_server(connection, sock=listening) for listening in sockets]


class Connection(web.RequestHandler):
    """A client's connection.

    Bytes above 0x7F in a request's first line are escaped, as aiohttp's parser wants it: Hadoop's
    Java client sends UTF-8 as it is.  Not so in requests sent before an earlier one is answered.
    """

    _warned_s = float("-inf")  #: when the log had the latest line about connections too many
    _line_comes = True  #: the first line of a request, or the rest of it
    _body: StreamReader | None = None  #: of the request that came last

    def data_received(self, data: bytes) -> None:
        if self._body is not None and self._body.is_eof() and not self._messages:
            self._line_comes, self._body = True, None
        if self._line_comes:
            line, end, rest = data.partition(b"\n")
            if not line.isascii():
                data = _NOT_ASCII.sub(lambda byte: b"%%%02X" % byte[0][0], line) + end + rest
            self._line_comes = not (end and line.strip())
        before = self._request_count
        super().data_received(data)
        if self._request_count > before:
            self._body = self._messages[-1][1]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve it, unless it is one too many, or comes from another user of this machine."""
        super().connection_made(transport)
        assert self._manager is not None
        is_too_many = len(self._manager.connections) > CONNECTIONS_MAX
        if is_too_many and time.monotonic() - Connection._warned_s >= _WARNED_EVERY_S:
            Connection._warned_s = time.monotonic()
            log.warning("%d connections: further ones are refused", CONNECTIONS_MAX)
        if is_too_many or not _is_welcome(transport):
            assert isinstance(transport, asyncio.Transport)
            transport.write(_TOO_MANY if is_too_many else _NOT_YOURS)
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a request that is no HTTP, without what the library would say."""
        if isinstance(exc, ConnectionError):
            raise exc  # the client has disconnected
        if request.writer.output_size > 0:
            raise ConnectionResetError("an answer has begun: nothing else can be said")
        what = shortened((message or "the gateway failed").split("\n", 1)[0], _LETTERS_MAX)
        if status >= 500:
            log.error("a request failed outside its handler: %s", what, exc_info=exc)
        response = RemoteError(status, "IOException", f"malformed request: {what}").response()
        response.force_close()
        return response


def _is_welcome(transport: asyncio.BaseTransport) -> bool:
    """Other machines are known by their token, processes on this one by their user."""
    connection = transport.get_extra_info("socket")
    try:
        if not ip_address(connection.getsockname()[0]).is_loopback:
            return True
        return is_of_this_user(connection)
    except OSError:
        return False  # it has disconnected
    except Unknown as why:
        _warn_once(str(why))
        return True


@functools.cache
def _warn_once(why: str) -> None:
    log.warning("whose processes connect is not known: %s", why)


def _answer(error: RemoteError) -> bytes:
    body, line = json.dumps(error.as_json()).encode(), HTTPStatus(error.status).phrase
    head = f"HTTP/1.1 {error.status} {line}\r\nContent-Type: application/json; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


_TOO_MANY = _answer(
    RemoteError(503, "RetriableException", "there are too many connections: try again later")
)
_NOT_YOURS = _answer(RemoteError(403, "AccessControlException", "the cluster is another user's"))


# Whose process is at the other end ---------------------------------------------------------------
class Unknown(Exception):
    """This system does not say whose a connection is."""


def is_of_this_user(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user's, or root's, that still has it open.

    ``Unknown`` if the system does not say.
    """
    family, peer, own = connection.family, connection.getpeername(), connection.getsockname()
    wanted = (
        struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE)
        + struct.pack("!HH", peer[1], own[1])
        + b"".join(socket.inet_pton(family, end[0]).ljust(16, b"\0") for end in (peer, own))
        + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    )
    header = _HEADER.pack(_HEADER.size + len(wanted), _BY_FAMILY, _REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as netlink:
            netlink.send(header + wanted)
            answer = netlink.recv(_BYTES_MAX)
    except OSError as error:
        raise Unknown(str(error)) from None
    if _HEADER.unpack_from(answer)[1] == _ERROR:
        number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        if number == errno.ENOENT:  # no process has it
            return False
        raise Unknown(os.strerror(number))
    user, inode = _OWNER.unpack_from(answer, _OWNER_AT)
    return bool(inode) and user in (os.geteuid(), 0)
