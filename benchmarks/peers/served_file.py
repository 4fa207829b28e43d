"""What the gateway is compared with: ``served_file.py aiohttp|http.server FILE`` serves one file.

It prints its URL.  The one with aiohttp takes uploads, too, and stores them beside the file.
"""

from __future__ import annotations

import functools
import http.server
import socket
import sys
from pathlib import Path

from aiohttp import web


def serve_with_aiohttp(file: Path) -> None:
    """GET is the file, by aiohttp's own response for files; PUT is written to disk."""

    async def get(_: web.Request) -> web.StreamResponse:
        return web.FileResponse(file)

    async def put(request: web.Request) -> web.Response:
        with file.with_suffix(".uploaded").open("wb") as stored:
            async for piece in request.content.iter_any():
                stored.write(piece)
        return web.Response(status=201)

    app = web.Application()
    app.router.add_get("/file", get)
    app.router.add_put("/file", put)
    listening = socket.create_server(("127.0.0.1", 0))
    _say(listening.getsockname()[1], "file")
    web.run_app(app, sock=listening, print=None, access_log=None)


def serve_with_http_server(file: Path) -> None:
    """GET is the file, by Python's own server."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=file.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        _say(server.server_port, file.name)
        server.serve_forever()


def _say(port: int, name: str) -> None:
    print(f"http://127.0.0.1:{port}/{name}", flush=True)


if __name__ == "__main__":
    serve = {"aiohttp": serve_with_aiohttp, "http.server": serve_with_http_server}[sys.argv[1]]
    serve(Path(sys.argv[2]))
