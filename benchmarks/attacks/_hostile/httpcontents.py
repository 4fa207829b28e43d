"""Requests that are sound HTTP, and ask for what there is not, in ways that nobody should."""

from __future__ import annotations

import json
import random
from urllib.parse import quote

from railyard.benchmarks.attacks._hostile.httprequest import (
    FOLDER,
    PREFIX,
    HostileRequest,
    new_name,
    request_head,
    some_bytes,
    status,
)

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


def traversal(dice: random.Random) -> HostileRequest:
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
    target = PREFIX + b"/" + (step + b"/") * dice.randrange(1, 12)
    target += dice.choice(
        (b"etc/passwd", b"%2fetc%2fpasswd", b"etc/passwd%00.txt", b"proc/self/environ")
    )
    op = dice.choice((b"OPEN&data=true", b"GETFILESTATUS", b"LISTSTATUS", b"GETFILECHECKSUM"))
    return HostileRequest(kind="traversal", parts=(request_head(b"GET", target + b"?op=" + op),))


def parameters(dice: random.Random) -> HostileRequest:
    """Parameters of wrong types and absurd size."""
    verb, op, path, names = dice.choice(
        (
            (b"GET", "OPEN&data=true", b"/kept", ("offset", "length")),
            (b"GET", "GETFILEBLOCKLOCATIONS", b"/kept", ("offset", "length")),
            (b"PUT", "CREATE", new_name(dice), ("overwrite", "replication", "permission", "data")),
            (b"PUT", "SETPERMISSION", new_name(dice), ("permission",)),
            (b"PUT", "SETTIMES", new_name(dice), ("modificationtime", "accesstime")),
            (b"PUT", "SETREPLICATION", new_name(dice), ("replication",)),
            (b"PUT", "RENAME", new_name(dice), ("destination",)),
            (b"PUT", "SETOWNER", new_name(dice), ("owner", "group")),
            (b"POST", "TRUNCATE", new_name(dice), ("newlength",)),
            (b"POST", "CONCAT", new_name(dice), ("sources",)),
            (b"GET", "GETHOMEDIRECTORY", b"/", ("user.name",)),
            (b"GET", dice.choice(_WORDS) or "X", b"/kept", ("op",)),
        )
    )
    given = "&".join(f"{name}={dice.choice(_WORDS)}" for name in names)
    target = PREFIX + path + f"?op={op}&{given}".encode()
    return HostileRequest(
        kind="parameters",
        parts=(request_head(verb, target, b"Content-Length: 0"),),
        may_succeed=True,
    )


def rest_parameters(dice: random.Random) -> HostileRequest:
    """The same to what YARN's clients and the page ask for."""
    path = dice.choice(_REST)
    names = ("limit", "states", "startedTimeBegin", "finalStatus", "user", "attempt", "file")
    given = "&".join(f"{name}={dice.choice(_WORDS)}" for name in dice.sample(names, 2))
    target = f"/{path}?{given}".encode()
    return HostileRequest(
        kind="parameters of YARN's", parts=(request_head(b"GET", target),), may_succeed=True
    )


def encoding(dice: random.Random) -> HostileRequest:
    """Bytes that are no UTF-8, and percent signs that say nothing."""
    bad = dice.choice(
        (
            some_bytes(dice, 40),
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
        PREFIX + FOLDER.encode() + b"/" + bad + b"?op=GETFILESTATUS",
        status() + b"&x=" + bad,
        PREFIX + b"/kept?op=" + bad,
    )[spot]
    asks = (b"Expect: 100-continue",) if dice.random() < 0.2 else ()
    head = request_head(b"GET", target, *asks)
    return HostileRequest(kind="encodings", parts=(head,), may_succeed=True, whole=False)


def bad_json(dice: random.Random) -> HostileRequest:
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
            some_bytes(dice, 300),
            json.dumps({"state": "KILLED", "more": list(range(9))}).encode(),
        )
    )
    path = dice.choice((*_SUBMITTING, "ws/v1/cluster/apps/x/state"))
    verb = b"POST" if path in _SUBMITTING else b"PUT"
    length = b"Content-Length: %d" % len(body)
    head = request_head(verb, f"/{path}".encode(), b"Content-Type: application/json", length)
    return HostileRequest(kind="bad JSON", parts=(head, body))


def other_sites(dice: random.Random) -> HostileRequest:
    """What a page of another site would have a browser send."""
    evil = quote("http://evil.example").encode() if dice.random() < 0.1 else b"http://evil.example"
    target = PREFIX + new_name(dice) + b"?op=MKDIRS"
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
        kind="other sites' pages", parts=(request_head(b"PUT", target, *headers, host=False),)
    )
