"""Requests that are no HTTP, or whose first line, headers or length lie."""

from __future__ import annotations

import random
import zlib

from railyard.benchmarks.attacks._hostile.httprequest import (
    PREFIX,
    HostileRequest,
    create,
    request_head,
    some_bytes,
    status,
)

_PAUSE_S = 0.01


def chunking(dice: random.Random) -> HostileRequest:
    """Chunked bodies whose lengths lie, are no numbers, or never end."""
    body = dice.choice(
        (
            b"zz\r\nabc\r\n0\r\n\r\n",
            b"-5\r\nabcde\r\n0\r\n\r\n",
            b"+5\r\nabcde\r\n0\r\n\r\n",
            b"0x5\r\nabcde\r\n0\r\n\r\n",
            b"5_0\r\nabcde\r\n0\r\n\r\n",
            b"f" * dice.choice((9, 17, 40, 5000)) + b"\r\nabcde\r\n0\r\n\r\n",
            b"5\r\nabcdefgh\r\n0\r\n\r\n",
            b"5\nabcde\n0\n\n",
            b"\r\nabcde\r\n0\r\n\r\n",
            b"5;" + b"x" * 20_000 + b"\r\nabcde\r\n",
            b"5\r\nabcde",
            b"5\r\nabcdeXX0\r\n\r\n",
            some_bytes(dice, 400),
        )
    )
    head = request_head(b"PUT", create(dice), b"Transfer-Encoding: chunked")
    return HostileRequest(kind="bad chunking", parts=(head, body), whole=False)


def headers(dice: random.Random) -> HostileRequest:
    """Headers that are too long, too many, or none."""
    header = dice.choice(
        (
            b"X: " + b"y" * dice.choice((17_000, 70_000, 300_000)),
            b"X" * 40_000 + b": y",
            b"\r\n".join(b"X-%d: y" % number for number in range(dice.choice((200, 5000)))),
            b"no colon",
            b": no name",
            b"X : space",
            b"X\x00Y: z",
            b"X: a\x00b",
            b"X: a\rb",
            b"X: a\nY: b",
            b" folded: from nothing",
            b"X\xff: y",
            b"Content-Length: 1" + b"0" * 300,
            b"Content-Length: -1",
            b"Content-Length: five",
            b"Host: evil.example",
            b"Transfer-Encoding: " + b"chunked, " * 1000,
        )
    )
    return HostileRequest(
        kind="huge or broken headers",
        parts=(request_head(b"GET", status(), header),),
        may_succeed=header in (b"Host: evil.example", b"X\xff: y", b"X: a\nY: b"),
        whole=False,
    )


def line(dice: random.Random) -> HostileRequest:
    """First lines that are none."""
    verb, target, version = dice.choice(
        (
            (b"", b"/", b"HTTP/1.1"),
            (b"G ET", b"/", b"HTTP/1.1"),
            (b"TRACE", status(), b"HTTP/1.1"),
            (b"CONNECT", b"evil.example:80", b"HTTP/1.1"),
            (b"OPTIONS", b"*", b"HTTP/1.1"),
            (b"PRI", b"*", b"HTTP/2.0"),
            (b"GET", status(), b"HTTP/9.9"),
            (b"GET", status(), b"HTTP/1.1.1"),
            (b"GET", status(), b"http/1.1"),
            (b"GET", status(), b""),
            (b"X" * 9000, b"/", b"HTTP/1.1"),
            (b"GET", b"/" + b"a/" * 30_000, b"HTTP/1.1"),
            (b"GET", PREFIX + b"/" + b"x" * 15_000 + b"?op=OPEN", b"HTTP/1.1"),
            (b"GET", b"http://evil.example" + status(), b"HTTP/1.1"),
            (b"GET", b"//evil.example" + status(), b"HTTP/1.1"),
            (b"G\xc3\x8bT", b"/", b"HTTP/1.1"),
        )
    )
    return HostileRequest(
        kind="broken first lines",
        parts=(request_head(verb, target, version=version),),
        may_succeed=target.startswith(b"http://"),  # its Host header is ours
        whole=False,
    )


def smuggling(dice: random.Random) -> HostileRequest:
    """Requests whose length can be read in two ways."""
    inner = b"GET /webhdfs/v1/kept?op=OPEN&data=true HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    size = b"Content-Length: %d" % len(inner)
    chunked = b"Transfer-Encoding: chunked"
    headers = dice.choice(
        (
            (size, chunked),
            (chunked, size),
            (b"Content-Length: 0", size),
            (b"Content-Length: 0, 5",),
            (chunked, b"Transfer-Encoding: identity"),
            (b"Transfer-Encoding: xchunked",),
            (b"Transfer-Encoding : chunked",),
            (b"Transfer-Encoding:\x0bchunked",),
            (b"Transfer-Encoding: chunked, identity",),
            (b"Content-Length: +5",),
            (b"Content-Length: 0x5",),
            (b"X: y\r\n Content-Length: 70",),
        )
    )
    head = request_head(b"PUT", create(dice), *headers)
    return HostileRequest(
        kind="request smuggling", parts=(head + b"0\r\n\r\n" + inner,), whole=False
    )


def pipelined(dice: random.Random) -> HostileRequest:
    """A sound request with garbage after it, or very many at once."""
    sound = b"GET " + status() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    after = dice.choice(
        (some_bytes(dice, 2000), b"\r\n" * 50, sound * dice.randrange(2, 40), b"GET /\r\n\r\n")
    )
    return HostileRequest(
        kind="pipelined garbage", parts=(sound + after,), may_succeed=True, whole=False
    )


def half_closed(dice: random.Random) -> HostileRequest:
    """A part of a request, after which the client closes its side, or resets the connection."""
    request = request_head(b"PUT", create(dice), b"Content-Length: 5000") + b"x" * 5000
    part = request[: dice.randrange(1, len(request))]
    return HostileRequest(
        kind="half-closed and reset", parts=(part,), whole=False, reset=dice.random() < 0.5
    )


def slow(dice: random.Random) -> HostileRequest:
    """A request whose bytes come slowly; it is a sound one."""
    request = request_head(b"GET", status())
    parts, at = [], 0
    while at < len(request):
        size = dice.randrange(1, 30)
        parts.append(request[at : at + size])
        at += size
    return HostileRequest(
        kind="slow clients", parts=tuple(parts), pause_s=_PAUSE_S, may_succeed=True
    )


def silent(dice: random.Random) -> HostileRequest:
    """A client that says a part of its headers, or nothing, and stays."""
    request = request_head(b"GET", status())
    part = request[: dice.randrange(len(request) - 4)]
    return HostileRequest(kind="clients that fall silent", parts=(part,), waits=True)


def garbage(dice: random.Random) -> HostileRequest:
    """Bytes that are no HTTP: random ones, TLS, a proxy's."""
    data = dice.choice(
        (
            some_bytes(dice, 3000),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + dice.randbytes(200),
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
            b"\x00" * 5000,
            b"\r\n" * 5000,
            b"SSH-2.0-x\r\n",
        )
    )
    return HostileRequest(kind="not HTTP", parts=(data,), whole=False)


def upgrading(dice: random.Random) -> HostileRequest:
    """Protocols, encodings and expectations that the gateway does not have."""
    headers = dice.choice(
        (
            (b"Upgrade: websocket", b"Sec-WebSocket-Key: x", b"Sec-WebSocket-Version: 13"),
            (b"Upgrade: h2c", b"HTTP2-Settings: x"),
            (b"Expect: 200-ok",),
            (b"Range: bytes=0-0,5-2,-99999999999999999999",),
            (b"Accept-Encoding: " + b"gzip, " * 1000,),
            (b"Cookie: " + b"a=b;" * 3000,),
            (b"Authorization: Basic \xff\xff",),
            (b"Origin: null", b"Referer: \xff"),
        )
    )
    return HostileRequest(
        kind="upgrades and expectations",
        parts=(request_head(b"GET", status(), *headers),),
        may_succeed=True,
        whole=False,
    )


def bomb(dice: random.Random) -> HostileRequest:
    """A body that would be a thousand times as large if it were unpacked."""
    body = zlib.compress(bytes(dice.choice((10**5, 10**7))), 9)
    encoding = dice.choice((b"deflate", b"gzip", b"br", b"zstd", b"gzip, deflate"))
    head = request_head(
        b"PUT",
        b"/ws/v1/cluster/apps/application_1_0001/state",
        b"Content-Encoding: " + encoding,
        b"Content-Length: %d" % len(body),
    )
    return HostileRequest(kind="packed bodies", parts=(head, body))
