"""Clients of the cluster that the gateway lends, and the threads that make their calls."""

from __future__ import annotations

import asyncio
import threading

import pytest

from railyard.gateway import stores
from railyard.gateway.workers import Worker


def test_a_worker_returns_raises_and_goes_on():
    async def main():
        worker = Worker("test")
        assert await worker.call(lambda: 6 * 7) == 42
        with pytest.raises(ZeroDivisionError):
            await worker.call(lambda: 1 // 0)
        threads = [await worker.call(threading.current_thread) for _ in range(2)]
        assert threads[0] is threads[1]
        goes_on = threading.Event()
        waiting = worker.call(goes_on.wait)
        waiting.cancel()
        goes_on.set()
        assert await worker.call(lambda: "after") == "after"
        worker.end()
        await asyncio.to_thread(threads[0].join, 30)
        assert not threads[0].is_alive()

    asyncio.run(main())


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
    monkeypatch.setattr(stores, "_IDLE_S", 0.01)

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
        await asyncio.sleep(0.05)
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
