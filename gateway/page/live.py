"""What is wrong with a cluster's daemons now, in words for the page.

The supervisor writes what becomes of each daemon (``cluster.supervisor``).  Whether a
NameNode that was started again is in safe mode is asked by whoever has a connection to it.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerLost
from railyard.cluster.messaging.access import GATEWAY
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Refusal
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.messages import GetSafeMode, SafeModeStatus
from railyard.gateway.page.feed import Row
from railyard.gateway.page.history import EventTail
from railyard.gateway.page.viewers import Viewers
from railyard.netemu.messages import (
    CircuitChanges,
    GetCircuitChanges,
    GetNetworkStats,
    NetworkStats,
)
from railyard.netemu.model.flows import CircuitChange
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus

_NAMENODE = "namenode"


class Trouble:
    """Follows the file of the supervisor's events."""

    def __init__(self, events: Path) -> None:
        self._events = events
        self._offset = 0  #: of the next line
        self._daemons: dict[str, str] = {}  #: of those that are not well, what is the matter
        self._safe_mode: SafeModeStatus | None = None  #: the NameNode's latest answer
        #: a NameNode that was started again is; any may be put into it by hand
        self.may_be_in_safe_mode = False

    def read(self) -> None:
        """Take the events that have come."""
        with suppress(OSError), self._events.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # not whole yet
                self._offset += len(line)
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


# Follows a cluster that runs: its log of events, replayed, and its network, looked at each second.
#
# In a thread of its own, with a loop and sockets of its own; what it finds goes to the server's
# loop. The log is read only while somebody looks at the page: then a core of this process handles
# the events again, so that the ResourceManager has no work with the page, however many look at it.


_LOG_PERIOD_S = 0.25
_NETWORK_PERIOD_S = 1.0
_TROUBLE_PERIOD_S = 1.0
#: The NameNode counts its blocks for its answer, so it is asked in every so many looks only, unless
#: it was started again.
_LOOKS_A_QUESTION = 5
_CLOCK_PERIOD_S = 30.0


class Live:
    """The thread that follows a cluster."""

    def __init__(
        self,
        folder: RunFolder,
        config: ClusterConfig,
        viewers: Viewers,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._folder = folder
        self._viewers = viewers
        self._loop = loop
        self._tail = EventTail(folder.jobs / "events.jsonl", config)
        self._trouble = Trouble(folder.supervisor_events)
        self._looks = 0
        self._offset_s: float | None = None  #: the events' clock minus this machine's
        self._changes_seen = 0
        self._stopping = False
        self._asking: set[str] = set()  #: what has been asked and not answered yet
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for that."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)

    def _run(self) -> None:
        transport = Transport(self._folder, role=GATEWAY)
        reactor = transport.reactor
        self._manager = LastingLink(transport, "resourcemanager")
        self._network = LastingLink(transport, "network")
        self._namenode = LastingLink(transport, "namenode")
        reactor.add(self._wake, reactor.stop)
        reactor.call_every(_LOG_PERIOD_S, self._read_log)
        reactor.call_every(_NETWORK_PERIOD_S, self._look_at_network)
        reactor.call_every(_TROUBLE_PERIOD_S, self._look_for_trouble)
        reactor.call_every(_CLOCK_PERIOD_S, self._ask_time)
        self._ask_time()
        reactor.run()
        transport.close()

    def _on_loop(self, call: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(call, *arguments)

    # The log -------------------------------------------------------------------------------------
    def _read_log(self) -> None:
        more = len(self._viewers) > 0
        while more and not self._stopping:
            rows, more = self._tail.read()
            self._on_loop(self._publish_rows, rows)
        if self._offset_s is not None:
            self._on_loop(self._viewers.tell_time, now_s() + self._offset_s)

    def _publish_rows(self, rows: list[Row]) -> None:
        self._viewers.publish(self._viewers.kept.take(rows))

    # The clock -----------------------------------------------------------------------------------
    def _ask_time(self) -> None:
        asked_s = now_s()

        def answered(answer: ClusterStatus | Refusal | PeerLost, _: object) -> None:
            self._asking.discard("time")
            if isinstance(answer, ClusterStatus):
                self._offset_s = answer.now_s - (asked_s + now_s()) / 2

        if "time" not in self._asking:
            self._asking.add("time")
            self._manager.request(GetClusterStatus(), ClusterStatus, answered)

    # The daemons ---------------------------------------------------------------------------------
    def _look_for_trouble(self) -> None:
        if not len(self._viewers):
            return
        self._trouble.read()
        self._on_loop(self._viewers.tell_trouble, self._trouble.words())
        self._looks += 1
        is_due = self._trouble.may_be_in_safe_mode or self._looks % _LOOKS_A_QUESTION == 0
        if is_due and "safe mode" not in self._asking:
            self._asking.add("safe mode")
            self._namenode.request(GetSafeMode(), SafeModeStatus, self._on_safe_mode)

    def _on_safe_mode(self, answer: SafeModeStatus | Refusal | PeerLost, _: object) -> None:
        self._asking.discard("safe mode")
        if isinstance(answer, SafeModeStatus):
            self._trouble.take_safe_mode(answer)

    # The network ---------------------------------------------------------------------------------
    def _look_at_network(self) -> None:
        if self._asking & {"links", "circuits"}:
            return
        self._asking |= {"links", "circuits"}
        self._network.request(GetNetworkStats(), NetworkStats, self._on_links)
        wanted = GetCircuitChanges(after=self._changes_seen)
        self._network.request(wanted, CircuitChanges, self._on_changes)

    def _on_links(self, answer: NetworkStats | Refusal | PeerLost, _: object) -> None:
        self._asking.discard("links")
        if isinstance(answer, NetworkStats) and self._offset_s is not None:
            at_s = now_s() + self._offset_s
            totals = {name: int(n) for name, n in (answer.cross_rack_links | answer.ports).items()}
            now = {name: rate for name, rate in answer.capacities.items() if name in totals}
            self._on_loop(self._publish_links, at_s, totals, now)

    def _publish_links(
        self, at_s: float, totals: dict[str, int], now_bytes_per_s: dict[str, float]
    ) -> None:
        self._viewers.publish(self._viewers.kept.take_links(at_s, totals, now_bytes_per_s))

    def _on_changes(self, answer: CircuitChanges | Refusal | PeerLost, _: object) -> None:
        self._asking.discard("circuits")
        if not isinstance(answer, CircuitChanges) or self._offset_s is None:
            return
        new = answer.changes[max(0, self._changes_seen - (answer.seen - len(answer.changes))) :]
        self._changes_seen = answer.seen
        offset_s = now_s() + self._offset_s - answer.now_s
        self._on_loop(self._publish_circuits, new, offset_s)

    def _publish_circuits(self, changes: Sequence[CircuitChange], offset_s: float) -> None:
        self._viewers.publish(self._viewers.kept.take_circuits(changes, offset_s))
