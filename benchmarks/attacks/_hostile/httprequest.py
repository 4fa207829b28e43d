"""A hostile HTTP request, and the pieces that most of them are made of."""

from __future__ import annotations

import random
from dataclasses import dataclass

#: All that writes is below this: afterwards nothing may be there.
FOLDER = "/hostile"
PREFIX = b"/webhdfs/v1"
END = b"\r\n\r\n"


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


def request_head(
    verb: bytes, target: bytes, *headers: bytes, version: bytes = b"HTTP/1.1", host: bool = True
) -> bytes:
    """The first line and the headers; ``host``: those of a client on this machine first."""
    own = (b"Host: 127.0.0.1", b"Connection: close") if host else ()
    return b"\r\n".join([verb + b" " + target + b" " + version, *own, *headers]) + END


def new_name(dice: random.Random) -> bytes:
    """A path that something may be written to."""
    return f"{FOLDER}/f{dice.randrange(10**6)}".encode()


def create(dice: random.Random) -> bytes:
    """The target that creates such a file."""
    return PREFIX + new_name(dice) + b"?op=CREATE&data=true"


def status(path: bytes = b"/kept") -> bytes:
    """The target that asks for the status of a path."""
    return PREFIX + path + b"?op=GETFILESTATUS"


def some_bytes(dice: random.Random, most: int) -> bytes:
    """Random bytes, fewer than ``most``."""
    return dice.randbytes(dice.randrange(1, most))
