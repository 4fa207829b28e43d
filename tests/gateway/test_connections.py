"""Connections without a cluster behind them: silence, numbers, and what is no HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import zlib

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from railyard.cluster.errors import UsageError
from railyard.gateway import stores
from railyard.gateway.address import origins_of
from railyard.gateway.http import connections
from railyard.gateway.http.answers import JSON_BYTES_MAX, json_body
from railyard.gateway.http.connections import answer
from railyard.gateway.http.guard import CrossOrigin, guard

SOUND = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def told(reader):
    """Status and JSON of an answer, after which the connection is closed."""
    answer = await asyncio.wait_for(reader.read(), 30)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Traceback" not in answer
    return int(head.split()[1]), json.loads(body)["RemoteException"]


def run(act):
    """Run ``act(port)`` beside a server that answers with a body's length, or takes JSON."""

    async def handle(request):
        return web.Response(text=str(len(await request.read())))

    async def take(request):
        return web.json_response(await json_body(request))

    run_beside(act, {"/": handle, "/json": take})


def run_beside(act, handlers):
    """Run ``act(port)`` beside a server with {path: handler}."""

    async def main():
        app = web.Application(middlewares=[guard()])
        for path, handle in handlers.items():
            app.router.add_route("*", path, handle)
        runner = web.AppRunner(app)
        listening = socket.create_server(("127.0.0.1", 0))
        [server] = await answer(runner, [listening])
        try:
            await act(listening.getsockname()[1])
        finally:
            server.close()
            await runner.cleanup()

    asyncio.run(main())


@pytest.mark.parametrize("begun", [b"", b"GET / HT", SOUND[:-2], SOUND])
def test_a_client_that_falls_silent_is_closed(monkeypatch, begun):
    monkeypatch.setattr(connections, "HEADERS_S", 0.05)

    async def act(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        await asyncio.wait_for(reader.read(), 30)
        writer.close()

    run(act)


def test_another_user_of_this_machine_gets_nothing(monkeypatch):
    monkeypatch.setattr(connections, "is_of_this_user", lambda _: False)

    async def act(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(SOUND)
        status, error = await told(reader)
        assert (status, error["exception"]) == (403, "AccessControlException")
        writer.close()

    run(act)


def test_a_connection_too_many_is_told_so(monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 2)

    async def act(port):
        both = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in both:  # it is served once it is answered
            writer.write(SOUND)
            await reader.readuntil(b"\r\n\r\n0")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        status, error = await told(reader)
        assert (status, error["exception"]) == (503, "RetriableException")
        for _, each in (*both, (reader, writer)):
            each.close()

    run(act)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff garbage\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_answered_with_json(data):
    async def act(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        status, error = await told(reader)
        assert (status, error["exception"]) == (400, "IOException")
        writer.close()

    run(act)


def test_a_packed_body_is_taken_as_it_is():
    packed = zlib.compress(bytes(100_000))

    async def act(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(packed)}\r\n"
        writer.write(f"{head}Content-Encoding: deflate\r\n\r\n".encode() + packed)
        answer = await reader.readuntil(str(len(packed)).encode())
        assert answer.startswith(b"HTTP/1.1 200")
        writer.close()

    run(act)


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"[" * 60_000, 400), (b"{", 400), (b"\xff", 400), (b" " * (JSON_BYTES_MAX + 1), 413)],
)
def test_json_that_is_none_or_too_much(body, status):
    async def act(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"PUT /json HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        assert (await told(reader))[0] == status
        writer.close()

    run(act)


# Names that are sent as UTF-8 --------------------------------------------------------------------
def run_echo(act):
    """Run ``act(port)`` beside a server that answers with a request's path and body."""

    async def handle(request):
        return web.json_response([request.path, (await request.read()).decode("latin-1")])

    run_beside(act, {"/{path:.*}": handle})


async def echoed(reader):
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    [length] = [line for line in head.split(b"\r\n") if line.startswith(b"Content-Length")]
    return json.loads(await reader.readexactly(int(length.split()[1])))


BODY = b"GET /\xff\n\x80\xff" * 3
NAMED = "PUT /a%20b%20ü%20東 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 27\r\n\r\n".encode()


@pytest.mark.parametrize(
    "pieces",
    [
        [NAMED + BODY],
        [NAMED, BODY],
        [NAMED[:12], NAMED[12:13], NAMED[13:20], NAMED[20:] + BODY[:5], BODY[5:]],
        [b"\r\n", NAMED[:15], NAMED[15:-2], b"\r\n" + BODY[:1], BODY[1:]],
    ],
)
def test_a_name_may_be_sent_as_it_is_in_utf_8(pieces):
    async def act(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):  # on one connection
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)  # so that it comes by itself
            assert await echoed(reader) == ["/a b ü 東", BODY.decode("latin-1")]
        writer.write(SOUND)
        assert await echoed(reader) == ["/", ""]
        writer.close()

    run_echo(act)


# Pages of other sites ----------------------------------------------------------------------------
PAGE = "http://localhost:3000"


def asked(method, origins, headers):
    """The answer to a request of a page, where pages of ``origins`` may read."""

    async def handle(_):
        return web.json_response({})

    async def main():
        others = CrossOrigin(origins)
        app = web.Application(middlewares=[guard(others=others)])
        app.on_response_prepare.append(others.sign)
        app.router.add_route("*", "/", handle)
        async with TestClient(TestServer(app)) as client:
            answered = await client.request(method, "/", headers=headers)
            return answered.status, answered.headers

    return asyncio.run(main())


def test_a_page_that_was_named_may_read():
    status, headers = asked("GET", [PAGE], {"Origin": PAGE})
    assert (status, headers["Access-Control-Allow-Origin"], headers["Vary"]) == (
        200,
        PAGE,
        "Origin",
    )
    assert "Access-Control-Allow-Credentials" not in headers
    wanted = {"Origin": PAGE, "Access-Control-Request-Method": "GET"}
    status, headers = asked("OPTIONS", [PAGE], wanted)
    assert (status, headers["Access-Control-Allow-Methods"]) == (200, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize(
    ("method", "origins", "right"),
    [("GET", [], 200), ("GET", ["http://localhost:3001"], 200), ("PUT", [PAGE], 403)],
)
def test_no_other_page_may_read_and_none_may_change_anything(method, origins, right):
    status, headers = asked(method, origins, {"Origin": PAGE})
    assert status == right
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("typed", ["*", "localhost:3000", "http://x/", "http://x y", "null"])
def test_an_origin_is_as_browsers_send_it(typed):
    with pytest.raises(UsageError, match=r"^--http-origins .*: need origins"):
        origins_of("--http-origins", typed)


# Clients of the cluster that the gateway lends, and the threads that make their calls.


class Store:
    """One without a cluster."""

    closed = 0

    def __init__(self, *_):
        self.idle_since_s = 0.0
        self.moved_bytes = 0

    def close(self):
        type(self).closed += 1


def test_clients_that_nobody_needs_are_closed(monkeypatch):
    monkeypatch.setattr(stores, "Store", Store)
    monkeypatch.setattr(stores, "_IDLE_S", 0.2)

    async def main():
        lending = stores.Stores(None, None)
        everybody, over = asyncio.Event(), asyncio.Event()
        lent = []

        async def ask():
            async with lending.one() as store:
                lent.append(store)
                if len(lent) == 5:
                    everybody.set()
                await over.wait()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(ask())
            await everybody.wait()
            assert len(set(map(id, lent))) == 5
            given_up = tasks.create_task(ask())
            while len(lent) < 6:
                await asyncio.sleep(0)
            given_up.cancel()
            over.set()
        assert Store.closed == 1  # its thread may be at work for who has gone
        while Store.closed < 4:
            await asyncio.sleep(0.01)
        async with lending.one() as store:
            assert store in lent
        await asyncio.sleep(0.5)
        assert Store.closed == 4
        lending.close()
        assert Store.closed == 6

    asyncio.run(asyncio.wait_for(main(), 30))


def test_memory_is_given_back_when_many_bytes_have_passed(monkeypatch):
    given_back = []
    monkeypatch.setattr(stores, "Store", Store)
    monkeypatch.setattr(stores, "return_freed_memory", lambda: given_back.append(len(given_back)))

    async def main():
        lending = stores.Stores(None, None)
        for count in (1, 2, 3, 4, 5):
            async with lending.one() as store:
                store.moved_bytes = stores._TRIMMED_BYTES // 2
            while len(given_back) < count // 2:
                await asyncio.sleep(0.01)
            assert len(given_back) == count // 2

    asyncio.run(asyncio.wait_for(main(), 30))
