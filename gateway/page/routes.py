"""The page's requests: the page itself, what it is fed, and what an attempt has written."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

from aiohttp import web

from railyard.cluster.ids import is_attempt
from railyard.gateway.http.errors import RemoteError
from railyard.gateway.page.assets import LIVE_PARTS, live_page, script
from railyard.gateway.page.viewers import Viewers

#: Where the page is.  It has nothing of the cluster in it, so nobody needs a token to open it.
PAGES = frozenset(("/", "/cluster"))
#: Of what an attempt has written, the end.
_LOG_BYTES_MAX = 2**16
_LOGS = ("stderr", "stdout")


class Page:
    """Answers ``/``, ``/cluster``, and what is below ``/page``."""

    def __init__(self, viewers: Viewers, attempts: Path) -> None:
        """``attempts``: the folder with a folder for each attempt."""
        self._viewers = viewers
        self._attempts = attempts
        self._text = live_page()
        digest = hashlib.sha256(script(*LIVE_PARTS).encode()).digest()
        self._policy = (
            f"default-src 'none'; script-src 'sha256-{base64.b64encode(digest).decode()}'; "
            "style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
        )

    def add_to(self, app: web.Application) -> None:
        """Route requests here."""
        for path in sorted(PAGES):
            app.router.add_get(path, self._page)
        app.router.add_get("/page/feed", self._viewers.serve)
        app.router.add_get("/page/log", self._log)
        app.on_shutdown.append(self._shut_down)

    async def _page(self, _: web.Request) -> web.Response:
        headers = {
            "Content-Security-Policy": self._policy,
            "Cache-Control": "no-cache",
            "Referrer-Policy": "no-referrer",
        }
        return web.Response(text=self._text, content_type="text/html", headers=headers)

    async def _log(self, request: web.Request) -> web.Response:
        """The end of what an attempt has written to its standard error or output."""
        attempt, name = request.query.get("attempt", ""), request.query.get("file", _LOGS[0])
        if not is_attempt(attempt) or name not in _LOGS:
            why = f"attempt {attempt[:40]!r}, file {name[:40]!r}: need j1.m0.0, and stderr"
            raise RemoteError(400, "BadRequestException", why)
        try:
            text = _end_of(self._attempts / attempt / name)
        except OSError:
            return web.Response(status=204)  # no error: simulated attempts never write any
        return web.Response(body=text, content_type="text/plain", charset="utf-8")

    async def _shut_down(self, _: web.Application) -> None:
        self._viewers.close()


def _end_of(path: Path) -> bytes:
    """The end of a file; ``OSError`` if there is none, or it is a link."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - _LOG_BYTES_MAX))
        return opened.read(_LOG_BYTES_MAX)
