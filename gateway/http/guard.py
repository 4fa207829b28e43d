"""Who may ask, and what nobody gets to see: checks of each request, and errors as JSON.

On the loopback only requests for this machine's own names are answered, so that no page of another
site can reach the gateway by a name of its own (DNS rebinding).  At any other address each request
has to bring a token, but for a page that has nothing of the cluster in it.  A page of another site
may not change anything at either.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from railyard.gateway.http.access import Access
from railyard.gateway.http.bodies import cut_off
from railyard.gateway.http.crossorigin import READING, CrossOrigin
from railyard.gateway.http.errors import RemoteError, remote_error

log = logging.getLogger(__name__)

_OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}", re.ASCII)
_NO_OTHERS = CrossOrigin()


def guard(
    access: Access | None = None,
    pages: Collection[str] = (),
    others: CrossOrigin = _NO_OTHERS,
) -> Middleware:
    """The check of every request, and what is told of its errors; None: as on the loopback.

    ``pages``: paths that can be read without a token; ``others``: whose pages may read answers.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        preflight = others.preflight(request)  # browsers ask without a token
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
            told = remote_error(error)
            if told is None:
                log.exception("%s %s failed", request.method, request.path)
                told = RemoteError(500, "IOException", "the gateway failed: its log says why")
            if request.writer.output_size > 0:  # what follows would count as the file's bytes
                cut_off(request)
                raise ConnectionResetError(str(told)) from None
            return told.response()

    return check


def _check(request: web.Request, access: Access | None, pages: Collection[str]) -> None:
    if access is not None and access.token:
        if request.method not in READING or request.path not in pages:
            access.check(request)
    elif not _is_own(_name(request.host)):
        why = f"Host {request.host[:80]!r}: need {', '.join(_OWN_NAMES)}"
        raise RemoteError(403, "AccessControlException", why)
    origin = request.headers.get("Origin", "")
    own = f"{request.scheme}://{request.host}"
    if origin not in ("", own) and request.method not in READING:
        why = f"Origin {origin[:80]!r}: pages of other sites may not change anything"
        raise RemoteError(403, "AccessControlException", why)


def _is_own(name: str) -> bool:
    """Whether it is a name of this machine, or an address of the loopback: that is no name."""
    return name in _OWN_NAMES or _LOOPBACK.fullmatch(name) is not None


def _name(host: str) -> str:
    """A host without its port."""
    return host.rsplit(":", 1)[0] if not host.endswith("]") else host
