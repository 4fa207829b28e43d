"""Pages of other sites that may read what the gateway answers: those that were named, and no other.

As Hadoop's CrossOriginFilter, off until somebody asks for it.  They may read only, and no cookie or
password that the browser has is of any use; where a token is needed they have to bring it.  Without
this a page of any site that is open in a browser could read what the cluster does, since the
browser is a process of the cluster's own user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from aiohttp import web

from railyard.cluster.errors import UsageError

READING = ("GET", "HEAD", "OPTIONS")
#: An origin as browsers write it: no path, no slash at the end.
_ORIGIN = re.compile(r"https?://[a-z0-9.\-]+(:\d{1,5})?|https?://\[[0-9a-f:.]+\](:\d{1,5})?")
_HEADERS = "Accept, Authorization, Content-Type, Origin, X-Requested-With"  # as Hadoop's, and ours
_SHOWN = "Railyard-Events"
_AGE_S = 1800


def origins_of(option: str, typed: str) -> tuple[str, ...]:
    """The origins that an option names, with commas; ``UsageError`` for what is none."""
    origins = tuple(each.strip() for each in typed.split(",") if each.strip())
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            right = "origins as browsers send them, such as http://localhost:3000"
            raise UsageError(f"{option} {origin[:80]}: need {right}")
    return origins


class CrossOrigin:
    """Says to browsers whose pages may read answers."""

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
        told = {"Access-Control-Allow-Methods": ", ".join(READING)}
        told |= {"Access-Control-Allow-Headers": _HEADERS, "Access-Control-Max-Age": str(_AGE_S)}
        return web.Response(status=200, headers=told)

    async def sign(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add what lets a page read the answer."""
        if self._origins:
            response.headers["Vary"] = "Origin"
        if self.allows(request):
            response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
            response.headers["Access-Control-Expose-Headers"] = _SHOWN
