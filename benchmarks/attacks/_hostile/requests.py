"""Malformed and hostile HTTP requests, by number: the same seed and number make the same request.

Most differ from a sound request in one place, so that they get as far as they can.  Those that
begin like a sound one may be answered as one; all others must be refused, or their connection
closed.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

#: All that writes is below this: afterwards nothing may be there.
FOLDER = "/hostile"
_PREFIX = b"/webhdfs/v1"
_END = b"\r\n\r\n"
_PAUSE_S = 0.01
#: Where jobs are submitted, and what else there is beside WebHDFS.
_SUBMITTING = ("ws/v1/cluster/apps", "ws/v1/railyard/streaming")
_REST = (
    *(
        f"ws/v1/cluster/{path}"
        for path in ("apps", "nodes", "apps/application_1_0001", "apps/%2e%2e")
    ),
    *(f"ws/v1/cluster/{path}" for path in ("nodes/%ff", "apps//")),
    *(f"ws/v1/history/mapreduce/jobs{path}" for path in ("", "/x", "/job_1_0001/tasks/%2e%2e")),
    *("proxy/x/ws/v1/mapreduce/jobs", "proxy/%2e%2e/", "ws/v1/node/apps/%ff", "node/x/ws/v1/node"),
    *("page/log", "page/%2e%2e/%2e%2e/etc/passwd", "%2e%2e/%2e%2e/etc/passwd"),
)
_NUMBERS = (
    "-1 -0 +5 1e9 1e9999 NaN Infinity 0x10 1_000 1.5 ٣ ９ 9223372036854775808 18446744073709551616 "
    f"{'9' * 400} null None true [] {{}} %00 %0a1 1%20 -9223372036854775809"
).split(" ")
_WORDS = (
    *_NUMBERS,
    "maybe",
    "",
    "a" * 3000,
    "%ff%fe",
    "%e2%80%ae",
    "../..",
    "'; drop table",
    "%1b[2J",
)


@dataclass(frozen=True, kw_only=True)
class HostileRequest:
    """What is sent over one connection."""

    kind: str
    parts: tuple[bytes, ...]  #: sent one after the other
    pause_s: float = 0.0  #: between parts
    whole: bool = True  #: whether an answer is to come; otherwise the sending side is closed
    may_succeed: bool = False  #: whether an answer of 200 or 307 is right
    reset: bool = False  #: the connection is reset instead of waiting for an answer
    waits: bool = False  #: nothing more is sent: the gateway must close in the end


def hostile_request(seed: int, number: int) -> HostileRequest:
    """The request of a number."""
    dice = random.Random(f"{seed} {number}")
    kinds = [kind for kind, _ in _KINDS]
    weights = [weight for _, weight in _KINDS]
    return dice.choices(kinds, weights)[0](dice)


# Helpers -----------------------------------------------------------------------------------------
def _head(
    verb: bytes, target: bytes, *headers: bytes, version: bytes = b"HTTP/1.1", host: bool = True
) -> bytes:
    own = (b"Host: 127.0.0.1", b"Connection: close") if host else ()
    return b"\r\n".join([verb + b" " + target + b" " + version, *own, *headers]) + _END


def _name(dice: random.Random) -> bytes:
    return f"{FOLDER}/f{dice.randrange(10**6)}".encode()


def _create(dice: random.Random) -> bytes:
    return _PREFIX + _name(dice) + b"?op=CREATE&data=true"


def _status(path: bytes = b"/kept") -> bytes:
    return _PREFIX + path + b"?op=GETFILESTATUS"


def _bytes(dice: random.Random, most: int) -> bytes:
    return dice.randbytes(dice.randrange(1, most))


# Kinds -------------------------------------------------------------------------------------------
def _chunking(dice: random.Random) -> HostileRequest:
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
            _bytes(dice, 400),
        )
    )
    head = _head(b"PUT", _create(dice), b"Transfer-Encoding: chunked")
    return HostileRequest(kind="bad chunking", parts=(head, body), whole=False)


def _headers(dice: random.Random) -> HostileRequest:
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
        parts=(_head(b"GET", _status(), header),),
        may_succeed=header in (b"Host: evil.example", b"X\xff: y", b"X: a\nY: b"),
        whole=False,
    )


def _line(dice: random.Random) -> HostileRequest:
    """First lines that are none."""
    verb, target, version = dice.choice(
        (
            (b"", b"/", b"HTTP/1.1"),
            (b"G ET", b"/", b"HTTP/1.1"),
            (b"TRACE", _status(), b"HTTP/1.1"),
            (b"CONNECT", b"evil.example:80", b"HTTP/1.1"),
            (b"OPTIONS", b"*", b"HTTP/1.1"),
            (b"PRI", b"*", b"HTTP/2.0"),
            (b"GET", _status(), b"HTTP/9.9"),
            (b"GET", _status(), b"HTTP/1.1.1"),
            (b"GET", _status(), b"http/1.1"),
            (b"GET", _status(), b""),
            (b"X" * 9000, b"/", b"HTTP/1.1"),
            (b"GET", b"/" + b"a/" * 30_000, b"HTTP/1.1"),
            (b"GET", _PREFIX + b"/" + b"x" * 15_000 + b"?op=OPEN", b"HTTP/1.1"),
            (b"GET", b"http://evil.example" + _status(), b"HTTP/1.1"),
            (b"GET", b"//evil.example" + _status(), b"HTTP/1.1"),
            (b"G\xc3\x8bT", b"/", b"HTTP/1.1"),
        )
    )
    return HostileRequest(
        kind="broken first lines",
        parts=(_head(verb, target, version=version),),
        may_succeed=target.startswith(b"http://"),  # its Host header is ours
        whole=False,
    )


def _traversal(dice: random.Random) -> HostileRequest:
    """Ways out of the block store, if its paths were the machine's."""
    step = dice.choice(
        (
            b"..",
            b"%2e%2e",
            b".%2e",
            b"%252e%252e",
            b"..%5c",
            b"..%2f",
            b"%c0%ae%c0%ae",
            b"..;",
            b"...",
        )
    )
    target = _PREFIX + b"/" + (step + b"/") * dice.randrange(1, 12)
    target += dice.choice(
        (b"etc/passwd", b"%2fetc%2fpasswd", b"etc/passwd%00.txt", b"proc/self/environ")
    )
    op = dice.choice((b"OPEN&data=true", b"GETFILESTATUS", b"LISTSTATUS", b"GETFILECHECKSUM"))
    return HostileRequest(kind="traversal", parts=(_head(b"GET", target + b"?op=" + op),))


def _parameters(dice: random.Random) -> HostileRequest:
    """Parameters of wrong types and absurd size."""
    verb, op, path, names = dice.choice(
        (
            (b"GET", "OPEN&data=true", b"/kept", ("offset", "length")),
            (b"GET", "GETFILEBLOCKLOCATIONS", b"/kept", ("offset", "length")),
            (b"PUT", "CREATE", _name(dice), ("overwrite", "replication", "permission", "data")),
            (b"PUT", "SETPERMISSION", _name(dice), ("permission",)),
            (b"PUT", "SETTIMES", _name(dice), ("modificationtime", "accesstime")),
            (b"PUT", "SETREPLICATION", _name(dice), ("replication",)),
            (b"PUT", "RENAME", _name(dice), ("destination",)),
            (b"PUT", "SETOWNER", _name(dice), ("owner", "group")),
            (b"POST", "TRUNCATE", _name(dice), ("newlength",)),
            (b"POST", "CONCAT", _name(dice), ("sources",)),
            (b"GET", "GETHOMEDIRECTORY", b"/", ("user.name",)),
            (b"GET", dice.choice(_WORDS) or "X", b"/kept", ("op",)),
        )
    )
    given = "&".join(f"{name}={dice.choice(_WORDS)}" for name in names)
    target = _PREFIX + path + f"?op={op}&{given}".encode()
    return HostileRequest(
        kind="parameters", parts=(_head(verb, target, b"Content-Length: 0"),), may_succeed=True
    )


def _rest_parameters(dice: random.Random) -> HostileRequest:
    """The same to what YARN's clients and the page ask for."""
    path = dice.choice(_REST)
    names = ("limit", "states", "startedTimeBegin", "finalStatus", "user", "attempt", "file")
    given = "&".join(f"{name}={dice.choice(_WORDS)}" for name in dice.sample(names, 2))
    target = f"/{path}?{given}".encode()
    return HostileRequest(
        kind="parameters of YARN's", parts=(_head(b"GET", target),), may_succeed=True
    )


def _encoding(dice: random.Random) -> HostileRequest:
    """Bytes that are no UTF-8, and percent signs that say nothing."""
    bad = dice.choice(
        (
            _bytes(dice, 40),
            b"%",
            b"%z",
            b"%zz",
            b"%u0041",
            b"%c0%af",
            b"%ed%a0%80",
            b"%f8%88%80%80%80",
            b"%00",
            b"\xff\xfe",
            "\u202e".encode(),
            b"%0d%0aSet-Cookie:%20x",
            b"a%2fb",
            b"a:b",
        )
    )
    spot = dice.randrange(3)
    target = (
        _PREFIX + FOLDER.encode() + b"/" + bad + b"?op=GETFILESTATUS",
        _status() + b"&x=" + bad,
        _PREFIX + b"/kept?op=" + bad,
    )[spot]
    asks = (b"Expect: 100-continue",) if dice.random() < 0.2 else ()
    head = _head(b"GET", target, *asks)
    return HostileRequest(kind="encodings", parts=(head,), may_succeed=True, whole=False)


def _json(dice: random.Random) -> HostileRequest:
    """JSON that is none, or not what is asked for."""
    body = dice.choice(
        (
            b"",
            b"{",
            b"nul",
            b"[" * dice.choice((500, 60_000)),
            b'{"state":' * 5000,
            b'{"x":' + b"[" * 60_000,
            b'{"state": 1e999}',
            b'{"state": ' + b"1" * 6000 + b"}",
            b'{"state": NaN}',
            b'"\xff\xfe"',
            b"\xff\xfe{\x00}\x00",
            b'{"state": "\\ud800"}',
            b"[1]",
            b"null",
            b"{}",
            b'{"state": {"a": []}}',
            b"x" * 300_000,
            _bytes(dice, 300),
            json.dumps({"state": "KILLED", "more": list(range(9))}).encode(),
        )
    )
    path = dice.choice((*_SUBMITTING, "ws/v1/cluster/apps/x/state"))
    verb = b"POST" if path in _SUBMITTING else b"PUT"
    length = b"Content-Length: %d" % len(body)
    head = _head(verb, f"/{path}".encode(), b"Content-Type: application/json", length)
    return HostileRequest(kind="bad JSON", parts=(head, body))


def _smuggling(dice: random.Random) -> HostileRequest:
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
    head = _head(b"PUT", _create(dice), *headers)
    return HostileRequest(
        kind="request smuggling", parts=(head + b"0\r\n\r\n" + inner,), whole=False
    )


def _pipelined(dice: random.Random) -> HostileRequest:
    """A sound request with garbage after it, or very many at once."""
    sound = b"GET " + _status() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    after = dice.choice(
        (_bytes(dice, 2000), b"\r\n" * 50, sound * dice.randrange(2, 40), b"GET /\r\n\r\n")
    )
    return HostileRequest(
        kind="pipelined garbage", parts=(sound + after,), may_succeed=True, whole=False
    )


def _half_closed(dice: random.Random) -> HostileRequest:
    """A part of a request, after which the client closes its side, or resets the connection."""
    request = _head(b"PUT", _create(dice), b"Content-Length: 5000") + b"x" * 5000
    part = request[: dice.randrange(1, len(request))]
    return HostileRequest(
        kind="half-closed and reset", parts=(part,), whole=False, reset=dice.random() < 0.5
    )


def _slow(dice: random.Random) -> HostileRequest:
    """A request whose bytes come slowly; it is a sound one."""
    request = _head(b"GET", _status())
    parts, at = [], 0
    while at < len(request):
        size = dice.randrange(1, 30)
        parts.append(request[at : at + size])
        at += size
    return HostileRequest(
        kind="slow clients", parts=tuple(parts), pause_s=_PAUSE_S, may_succeed=True
    )


def _silent(dice: random.Random) -> HostileRequest:
    """A client that says a part of its headers, or nothing, and stays."""
    request = _head(b"GET", _status())
    part = request[: dice.randrange(len(request) - 4)]
    return HostileRequest(kind="clients that fall silent", parts=(part,), waits=True)


def _garbage(dice: random.Random) -> HostileRequest:
    """Bytes that are no HTTP: random ones, TLS, a proxy's."""
    data = dice.choice(
        (
            _bytes(dice, 3000),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + dice.randbytes(200),
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
            b"\x00" * 5000,
            b"\r\n" * 5000,
            b"SSH-2.0-x\r\n",
        )
    )
    return HostileRequest(kind="not HTTP", parts=(data,), whole=False)


def _upgrading(dice: random.Random) -> HostileRequest:
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
        parts=(_head(b"GET", _status(), *headers),),
        may_succeed=True,
        whole=False,
    )


def _bomb(dice: random.Random) -> HostileRequest:
    """A body that would be a thousand times as large if it were unpacked."""
    body = zlib.compress(bytes(dice.choice((10**5, 10**7))), 9)
    encoding = dice.choice((b"deflate", b"gzip", b"br", b"zstd", b"gzip, deflate"))
    head = _head(
        b"PUT",
        b"/ws/v1/cluster/apps/application_1_0001/state",
        b"Content-Encoding: " + encoding,
        b"Content-Length: %d" % len(body),
    )
    return HostileRequest(kind="packed bodies", parts=(head, body))


def _other_sites(dice: random.Random) -> HostileRequest:
    """What a page of another site would have a browser send."""
    evil = quote("http://evil.example").encode() if dice.random() < 0.1 else b"http://evil.example"
    target = _PREFIX + _name(dice) + b"?op=MKDIRS"
    host, origin = dice.choice(
        (
            (b"evil.example", b""),
            (b"127.0.0.1.evil.example", b""),
            (b"127.0.0.1", evil),
            (b"127.0.0.1", b"null"),
        )
    )
    headers = [b"Host: " + host, b"Content-Length: 0", b"Connection: close"]
    if origin:
        headers.append(b"Origin: " + origin)
    return HostileRequest(
        kind="other sites' pages", parts=(_head(b"PUT", target, *headers, host=False),)
    )


_Kind = Callable[[random.Random], HostileRequest]
#: (kind, how often): silent ones are few, since each takes as long as the gateway waits
_KINDS: tuple[tuple[_Kind, float], ...] = (
    (_chunking, 10),
    (_headers, 10),
    (_line, 8),
    (_traversal, 10),
    (_parameters, 12),
    (_rest_parameters, 8),
    (_encoding, 10),
    (_json, 8),
    (_smuggling, 8),
    (_pipelined, 4),
    (_half_closed, 8),
    (_slow, 2),
    (_silent, 0.3),
    (_garbage, 8),
    (_upgrading, 4),
    (_bomb, 2),
    (_other_sites, 4),
)
