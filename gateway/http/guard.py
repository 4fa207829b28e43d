"""Who may ask, and what nobody gets to see: checks of each request, and errors as JSON.

On the loopback only requests for this machine's own names are answered, so that no page of another
site can reach the gateway by a name of its own (DNS rebinding).  At any other address each request
has to bring a token, but for a page that has nothing of the cluster in it.  A page of another site
may not change anything at either, and read only if its site was named.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import itertools
import logging
import re
import secrets
import time
from collections.abc import Collection, Sequence
from io import BytesIO
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from railyard.gateway.http.answers import RemoteError, remote_error

log = logging.getLogger(__name__)

#: This machine's own name, or an address of the loopback, which is no name; with or without a port.
_OWN_HOST = re.compile(r"(localhost|\[::1\]|127(\.\d{1,3}){3})(:[^:]*)?", re.ASCII)
READING = ("GET", "HEAD", "OPTIONS")
_HEADERS = "Accept, Authorization, Content-Type, Origin, X-Requested-With"  # as Hadoop's, and ours
_SHOWN = "Railyard-Events"
_AGE_S = 1800
_KIND = "WEBHDFS delegation"
_LIFE_MS = 7 * 86_400_000
_RENEWED_MS = 86_400_000
_CANCELLED_MAX = 100_000
_TEXT_MAX = 3000


def guard(
    access: Access | None = None, pages: Collection[str] = (), others: CrossOrigin | None = None
) -> Middleware:
    """The check of every request, and the answer to its errors; None: as on the loopback.

    ``pages``: paths that can be read without a token; ``others``: whose pages may read answers.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        preflight = others.preflight(request) if others else None  # browsers ask without a token
        if preflight is not None:
            return preflight
        try:
            _check(request, access, pages)
            return await handler(request)
        except web.HTTPException as error:
            return RemoteError(error.status, "IOException", error.reason).response()
        except ConnectionError:
            raise  # nobody is there to be answered
        except Exception as error:
            refusal = remote_error(error)
            if refusal is None:
                log.exception("%s %s failed", request.method, request.path)
                refusal = RemoteError(500, "IOException", "the gateway failed: its log says why")
            if request.writer.output_size > 0:  # what follows would count as the file's bytes
                if request.transport is not None:
                    request.transport.abort()  # so that the client sees that it is not whole
                raise ConnectionResetError(str(refusal)) from None
            return refusal.response()

    return check


def _check(request: web.Request, access: Access | None, pages: Collection[str]) -> None:
    if access is not None and access.token:
        if request.method not in READING or request.path not in pages:
            access.check(request)
    elif not _OWN_HOST.fullmatch(request.host):
        why = f"Host {request.host[:80]!r}: need localhost, 127.0.0.1, [::1]"
        raise RemoteError(403, "AccessControlException", why)
    origin = request.headers.get("Origin", "")
    own = f"{request.scheme}://{request.host}"
    if origin not in ("", own) and request.method not in READING:
        why = f"Origin {origin[:80]!r}: pages of other sites may not change anything"
        raise RemoteError(403, "AccessControlException", why)


class Access(NamedTuple):
    """The gateway's token ("": none is needed), and the delegation tokens that it issues."""

    token: str
    tokens: Tokens

    def check(self, request: web.Request) -> None:
        """Raise ``RemoteError`` unless the request has the token.

        Clients that cannot send headers have a delegation token in their URLs.
        """
        shown = request.headers.get("Authorization", "").encode("utf-8", "replace")
        if hmac.compare_digest(shown, f"Bearer {self.token}".encode()):
            return
        delegated = request.query.get("delegation")
        if delegated is None:
            right = "need the header Authorization: Bearer TOKEN, or delegation=TOKEN in the URL"
            raise RemoteError(401, "SecurityException", f"Authentication required: {right}")
        self.tokens.read(delegated, int(time.time() * 1000))


# Pages of other sites ----------------------------------------------------------------------------
class CrossOrigin:
    """Says to browsers whose pages may read answers: those of the sites that were named.

    As Hadoop's CrossOriginFilter, off until somebody asks for it.  They may read only, and no
    cookie or password that the browser has is of any use; where a token is needed they have to
    bring it.  Without this a page of any site that is open in a browser could read what the cluster
    does, since the browser is a process of the cluster's own user.
    """

    def __init__(self, origins: Sequence[str] = ()) -> None:
        self._origins = frozenset(origins)

    def allows(self, request: web.Request) -> bool:
        """Whether the page that asks was named, and only reads."""
        return request.method in READING and request.headers.get("Origin") in self._origins

    def preflight(self, request: web.Request) -> web.Response | None:
        """The answer to a browser that asks what a page may; None for any other request."""
        wanted = request.headers.get("Access-Control-Request-Method")
        if request.method != "OPTIONS" or wanted is None or not self.allows(request):
            return None
        allowed = {"Methods": ", ".join(READING), "Headers": _HEADERS}
        headers = {f"Access-Control-Allow-{what}": names for what, names in allowed.items()}
        return web.Response(headers=headers | {"Access-Control-Max-Age": str(_AGE_S)})

    async def sign(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add what lets a page read the answer."""
        if self._origins:
            response.headers["Vary"] = "Origin"
        if self.allows(request):
            response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
            response.headers["Access-Control-Expose-Headers"] = _SHOWN


# Delegation tokens -------------------------------------------------------------------------------
class Token(NamedTuple):
    """What a token's identifier says; times in milliseconds since 1970."""

    owner: str
    renewer: str
    issued_ms: int
    ends_ms: int
    number: int


class Tokens:
    """Issues tokens and knows those again that it issued: who has one is the user that it names.

    Their layout is Hadoop's, so that its clients can read them: identifier, password (an HMAC-SHA1
    of the identifier), kind and service, in URL-safe base 64.  The key is drawn when the gateway
    starts, so no token outlives it, unless the gateway has a secret.  A token holds for 7 days.
    Source: Hadoop's ``Token``, ``AbstractDelegationTokenIdentifier`` and ``WritableUtils``.
    """

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
            packed = BytesIO(base64.b64decode(padded, b"-_", validate=True))
            identifier, password = _read_sized(packed), _read_sized(packed)
        except (ValueError, binascii.Error):
            raise _invalid("it cannot be read") from None
        if not hmac.compare_digest(password, self._password(identifier)):
            raise _invalid("it is not of this gateway, or of before its last start")
        data = BytesIO(identifier[1:])  # what follows the version
        owner, renewer, _ = (_read_sized(data).decode() for _ in range(3))
        token = Token(owner, renewer, *(_read_number(data) for _ in range(3)))
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


def _read_number(data: BytesIO) -> int:
    first = _take(data, 1)[0]
    if first <= 127:
        return first
    count = 0x90 - first
    if not 1 <= count <= 8:
        raise ValueError("no number >= 0")
    return int.from_bytes(_take(data, count), "big")


def _read_sized(data: BytesIO) -> bytes:
    return _take(data, _read_number(data))


def _take(data: BytesIO, count: int) -> bytes:
    taken = data.read(count)
    if len(taken) < count:
        raise ValueError("cut off")
    return taken
