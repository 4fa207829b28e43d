"""Delegation tokens: who has one is the user that it names, as with ``user.name``.

Their layout is Hadoop's, so that its clients can read them: identifier, password (an HMAC-SHA1 of
the identifier), kind and service, in URL-safe base 64.  The key is drawn when the gateway starts,
so no token outlives it, unless the gateway has a secret.  A token holds for 7 days.
Source: Hadoop's ``Token``, ``AbstractDelegationTokenIdentifier`` and ``WritableUtils``.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import itertools
import secrets
from typing import NamedTuple

from railyard.gateway.http.errors import RemoteError

_KIND = "WEBHDFS delegation"
_LIFE_MS = 7 * 86_400_000
_RENEWED_MS = 86_400_000
_CANCELLED_MAX = 100_000
_TEXT_MAX = 3000


class Token(NamedTuple):
    """What a token's identifier says; times in milliseconds since 1970."""

    owner: str
    renewer: str
    issued_ms: int
    ends_ms: int
    number: int


class Tokens:
    """Issues tokens and knows those again that it issued."""

    def __init__(self, service: str, secret: str = "") -> None:
        """With a ``secret``, those are known again that were issued with it before."""
        self._service = service
        self._key = secret.encode() or secrets.token_bytes(20)
        self._numbers = itertools.count(1)
        self._cancelled: set[int] = set()

    def issue(self, owner: str, renewer: str, now_ms: int) -> str:
        """A new token, as text for URLs."""
        ends_ms = now_ms + _LIFE_MS
        identifier = b"".join(
            (
                b"\0",  # version
                *(_sized(text) for text in (owner, renewer, "")),  # "": no real user behind it
                *(_number(each) for each in (now_ms, ends_ms, next(self._numbers), 1)),
            )
        )
        parts = (identifier, self._password(identifier), _KIND.encode(), self._service.encode())
        packed = b"".join(_number(len(part)) + part for part in parts)
        return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()

    def read(self, text: str, now_ms: int) -> Token:
        """The token of a text; ``RemoteError`` for one that does not hold, or no longer."""
        try:
            padded = text[:_TEXT_MAX] + "=" * (-len(text[:_TEXT_MAX]) % 4)
            packed = _Reader(base64.b64decode(padded, b"-_", validate=True))
            identifier, password = packed.sized(), packed.sized()
        except (ValueError, binascii.Error):
            raise _invalid("it cannot be read") from None
        if not hmac.compare_digest(password, self._password(identifier)):
            raise _invalid("it is not of this gateway, or of before its last start")
        token = _token(identifier)
        if token.number in self._cancelled:
            raise _invalid("it was cancelled")
        if now_ms >= token.ends_ms:
            raise _invalid("it has expired")
        return token

    def renew(self, text: str, user: str, now_ms: int) -> int:
        """Until when a token holds at least, for its renewer to know."""
        token = self.read(text, now_ms)
        if user != token.renewer:
            why = f"{user} tries to renew a token with renewer {token.renewer}"
            raise RemoteError(403, "AccessControlException", why)
        return min(now_ms + _RENEWED_MS, token.ends_ms)

    def cancel(self, text: str, user: str, now_ms: int) -> None:
        """Let a token hold no longer; its owner and its renewer may."""
        token = self.read(text, now_ms)
        if user not in (token.owner, token.renewer):
            why = f"{user} is not authorized to cancel the token"
            raise RemoteError(403, "AccessControlException", why)
        if len(self._cancelled) >= _CANCELLED_MAX:
            why = f"{_CANCELLED_MAX} tokens were cancelled: no more are"
            raise RemoteError(403, "IOException", why)
        self._cancelled.add(token.number)

    def _password(self, identifier: bytes) -> bytes:
        return hmac.digest(self._key, identifier, "sha1")


def _token(identifier: bytes) -> Token:
    """What one of our own identifiers says."""
    reader = _Reader(identifier[1:])
    owner, renewer, _ = (reader.sized().decode() for _ in range(3))
    return Token(owner, renewer, reader.number(), reader.number(), reader.number())


def _invalid(why: str) -> RemoteError:
    return RemoteError(403, "InvalidToken", f"The delegation token does not hold: {why}")


# Hadoop's layout of numbers and texts ------------------------------------------------------------
def _sized(text: str) -> bytes:
    data = text.encode()
    return _number(len(data)) + data


def _number(value: int) -> bytes:
    """A whole number >= 0: itself up to 127, else 0x8F - n and its n + 1 bytes."""
    if value <= 127:
        return bytes([value])
    count = (value.bit_length() + 7) // 8
    return bytes([0x90 - count]) + value.to_bytes(count, "big")


class _Reader:
    """Reads numbers and texts one after the other; ``ValueError`` for what is cut off."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def number(self) -> int:
        first = self._take(1)[0]
        if first <= 127:
            return first
        count = 0x90 - first
        if not 1 <= count <= 8:
            raise ValueError("no number >= 0")
        return int.from_bytes(self._take(count), "big")

    def sized(self) -> bytes:
        return self._take(self.number())

    def _take(self, count: int) -> bytes:
        taken, self._data = self._data[:count], self._data[count:]
        if len(taken) < count:
            raise ValueError("cut off")
        return taken
