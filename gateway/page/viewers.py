"""What browsers that look at a run are sent: the page, the run's rows, what an attempt has written.

Each is sent all rows that there are, then new ones, by server-sent events.  A viewer that does not
keep up is dropped: its browser comes back and is sent everything again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from railyard.cluster.ids import is_attempt
from railyard.gateway.http.answers import RemoteError
from railyard.gateway.page.history import RunHistory, listed
from railyard.gateway.page.theme import LIVE_PARTS, live_page, script

VIEWERS_MAX = 32
#: Messages that wait for a viewer.
_WAITING_MAX = 256
_SILENCE_S_MAX = 10.0
#: Where the page is.  It has nothing of the cluster in it, so nobody needs a token to open it.
PAGES = frozenset(("/", "/cluster"))
#: Of what an attempt has written, the end.
_LOG_BYTES_MAX = 2**16
_LOGS = ("stderr", "stdout")


class Viewers:
    """Those who look at one run.  All calls are on the server's event loop."""

    def __init__(self, history: RunHistory) -> None:
        self.history = history
        #: of each, what waits for it, and its connection
        self._queues: dict[asyncio.Queue[bytes | None], asyncio.Transport | None] = {}
        self._trouble = _message("trouble", b"[]")

    def __len__(self) -> int:
        return len(self._queues)

    def publish(self, rows: Sequence[bytes]) -> None:
        if rows:
            self._send(_message("rows", listed(rows)))

    def send_time(self, now_s: float) -> None:
        """Send them what time it is by the run's clock."""
        self._send(_message("now", msgspec.json.encode(round(now_s, 3))))

    def send_trouble(self, words: Sequence[str]) -> None:
        """Send them what is wrong with the cluster's daemons, if that has changed."""
        message = _message("trouble", msgspec.json.encode(words))
        if message != self._trouble:
            self._trouble = message
            self._send(message)

    async def close(self, _: web.Application) -> None:
        for queue in list(self._queues):
            self._drop(queue)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer a browser's request with everything, and go on until it hangs up."""
        with self._one(request.transport) as queue:
            # together with the queue, so that nothing is missed
            whole, trouble = self.history.whole(), self._trouble
            response = web.StreamResponse()
            response.content_type = "text/event-stream"
            response.headers["Cache-Control"] = "no-store"
            await response.prepare(request)
            head = msgspec.json.encode(self.history.head)
            await response.write(_message("whole", head))
            for piece in whole:
                await response.write(_message("rows", piece))
            await response.write(trouble + _message("ready", b"true"))
            while self.history.head["live"] and (message := await _next(queue)) is not None:
                await response.write(message)
            return response

    @contextmanager
    def _one(self, connection: asyncio.Transport | None) -> Iterator[asyncio.Queue[bytes | None]]:
        if len(self._queues) >= VIEWERS_MAX:
            why = f"{VIEWERS_MAX} viewers are there: need fewer pages that are open"
            raise RemoteError(503, "RetriableException", why)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING_MAX)
        self._queues[queue] = connection
        try:
            yield queue
        finally:
            self._queues.pop(queue, None)

    def _send(self, message: bytes) -> None:
        for queue in list(self._queues):
            try:
                queue.put_nowait(message)
            except asyncio.QueueFull:
                self._drop(queue)

    def _drop(self, queue: asyncio.Queue[bytes | None]) -> None:
        connection = self._queues.pop(queue, None)
        if connection is not None:
            connection.abort()  # one that does not read would never see an orderly end
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


async def _next(queue: asyncio.Queue[bytes | None]) -> bytes | None:
    """The next message; now and then one that says nothing, which shows who has hung up."""
    try:
        return await asyncio.wait_for(queue.get(), _SILENCE_S_MAX)
    except TimeoutError:
        return b":\n\n"


def _message(event: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), data)


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
        for path in sorted(PAGES):
            app.router.add_get(path, self._page)
        app.router.add_get("/page/feed", self._viewers.serve)
        app.router.add_get("/page/log", self._log)
        app.on_shutdown.append(self._viewers.close)

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
        path, flags = self._attempts / attempt / name, os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with open(os.open(path, os.O_RDONLY | flags), "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES_MAX))
                text = file.read(_LOG_BYTES_MAX)
        except OSError:
            return web.Response(status=204)  # no error: simulated attempts never write any
        return web.Response(body=text, content_type="text/plain", charset="utf-8")
