"""Follows a cluster that runs: its log of events, its network, its daemons.

In a thread of its own, with a loop and sockets of its own; what it finds goes to the server's
loop.  The log is read only while somebody watches the page: then a core of this process handles
the events again, so that the ResourceManager has no work with the page, however many watch.
"""

from __future__ import annotations

import json
import os
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from railyard.cluster.config import ClusterConfig
from railyard.cluster.files import NewLines
from railyard.cluster.messaging.access import GATEWAY
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Message
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.messages import GetSafeMode, SafeModeStatus
from railyard.gateway.page.history import EventTail
from railyard.gateway.page.viewers import Viewers
from railyard.netemu.messages import (
    CircuitChanges,
    GetCircuitChanges,
    GetNetworkStats,
    NetworkStats,
)
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus

M = TypeVar("M", bound=Message)
_NAMENODE = "namenode"
_LOG_PERIOD_S = 0.25
_NETWORK_PERIOD_S = 1.0
_TROUBLE_PERIOD_S = 1.0
#: The NameNode counts its blocks to answer, so it is asked rarely, unless it was started again.
_TIMES_A_QUESTION = 5
_CLOCK_PERIOD_S = 30.0


class Live:
    """The thread that follows a cluster."""

    def __init__(
        self, folder: RunFolder, config: ClusterConfig, viewers: Viewers, loop: AbstractEventLoop
    ) -> None:
        self._folder = folder
        self._viewers = viewers
        self._on_loop = loop.call_soon_threadsafe
        self._tail = EventTail(folder.jobs / "events.jsonl", config)
        self._trouble = Trouble(folder.supervisor_events)
        self._times = 0  #: that trouble was looked for
        self._offset_s: float | None = None  #: the events' clock minus this machine's
        self._changes_seen = 0
        self._stopping = False
        self._unanswered: set[type[Message]] = set()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)

    def _run(self) -> None:
        transport = Transport(self._folder, role=GATEWAY)
        reactor = transport.reactor
        self._manager = LastingLink(transport, "resourcemanager")
        self._network = LastingLink(transport, "network")
        self._namenode = LastingLink(transport, _NAMENODE)
        reactor.add(self._wake, reactor.stop)
        reactor.call_every(_LOG_PERIOD_S, self._read_log)
        reactor.call_every(_NETWORK_PERIOD_S, self._ask_network)
        reactor.call_every(_TROUBLE_PERIOD_S, self._look_for_trouble)
        reactor.call_every(_CLOCK_PERIOD_S, self._ask_time)
        self._ask_time()
        reactor.run()
        transport.close()

    def _ask(
        self, link: LastingLink, question: Message, kind: type[M], act: Callable[[M], None]
    ) -> None:
        """Ask a daemon, unless the same was asked before and is not answered yet."""

        def answered(answer: object, _: object) -> None:
            self._unanswered.discard(kind)
            if isinstance(answer, kind):
                act(answer)

        if kind not in self._unanswered:
            self._unanswered.add(kind)
            link.request(question, kind, answered)

    def _publish(self, take: Callable[..., list[bytes]], *arguments: object) -> None:
        """Have the history take something, and send the rows that it makes of it."""
        self._on_loop(lambda: self._viewers.publish(take(*arguments)))

    def _read_log(self) -> None:
        more = len(self._viewers) > 0
        while more and not self._stopping:
            rows, more = self._tail.read()
            self._publish(self._viewers.history.take, rows)
        if self._offset_s is not None:
            self._on_loop(self._viewers.send_time, now_s() + self._offset_s)

    def _ask_time(self) -> None:
        self._ask(self._manager, GetClusterStatus(), ClusterStatus, partial(self._on_time, now_s()))

    def _on_time(self, asked_s: float, status: ClusterStatus) -> None:
        self._offset_s = status.now_s - (asked_s + now_s()) / 2

    # The daemons ---------------------------------------------------------------------------------
    def _look_for_trouble(self) -> None:
        if not len(self._viewers):
            return
        self._trouble.read()
        self._on_loop(self._viewers.send_trouble, self._trouble.words())
        self._times += 1
        if self._trouble.may_be_in_safe_mode or self._times % _TIMES_A_QUESTION == 0:
            take = self._trouble.take_safe_mode
            self._ask(self._namenode, GetSafeMode(), SafeModeStatus, take)

    # The network ---------------------------------------------------------------------------------
    def _ask_network(self) -> None:
        self._ask(self._network, GetNetworkStats(), NetworkStats, self._on_links)
        after = GetCircuitChanges(after=self._changes_seen)
        self._ask(self._network, after, CircuitChanges, self._on_changes)

    def _on_links(self, stats: NetworkStats) -> None:
        if self._offset_s is not None:
            totals = {name: int(n) for name, n in (stats.cross_rack_links | stats.ports).items()}
            now = {name: rate for name, rate in stats.capacities.items() if name in totals}
            take = self._viewers.history.take_links
            self._publish(take, now_s() + self._offset_s, totals, now)

    def _on_changes(self, news: CircuitChanges) -> None:
        if self._offset_s is not None:
            new = news.changes[max(0, self._changes_seen - (news.seen - len(news.changes))) :]
            self._changes_seen = news.seen
            offset_s = now_s() + self._offset_s - news.now_s
            self._publish(self._viewers.history.take_circuits, new, offset_s)


class Trouble:
    """What is wrong with a cluster's daemons now, in words for the page.

    Follows the file of events of the supervisor, which writes what becomes of each daemon.  Whether
    a NameNode is in safe mode is asked by whoever has a connection to it.
    """

    def __init__(self, events: Path) -> None:
        self._events = NewLines(events)
        self._daemons: dict[str, str] = {}  #: of those that are not well, what is the matter
        self._safe_mode: SafeModeStatus | None = None  #: the NameNode's latest answer
        #: a NameNode that was started again is; any may be put into it by hand
        self.may_be_in_safe_mode = False

    def read(self) -> None:
        for line in self._events.read():
            with suppress(json.JSONDecodeError):  # cut short by a full disk
                self._take(json.loads(line))

    def words(self) -> list[str]:
        """A line for each trouble; none if all is well."""
        found = [f"{name} {what}" for name, what in sorted(self._daemons.items())]
        return found if self._safe_mode is None else [*found, str(self._safe_mode)]

    def take_safe_mode(self, status: SafeModeStatus) -> None:
        """Take the answer of the NameNode that runs now."""
        self._safe_mode = status if status.on else None
        self.may_be_in_safe_mode = status.on

    def _take(self, event: dict[str, Any]) -> None:
        name = event.get("name", "")
        match event["event"]:
            case "died":
                self._daemons[name] = f"died ({event['how']}): {event['next']}"
                if name == _NAMENODE:
                    self._safe_mode, self.may_be_in_safe_mode = None, False
            case "suspended":
                self._daemons[name] = f"is stopped, until kill -CONT {event['pid']}"
            case "started-again" | "resumed":
                self._daemons.pop(name, None)
                self.may_be_in_safe_mode |= name == _NAMENODE
