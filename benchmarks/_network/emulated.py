"""Real transfers between real processes, through a real network emulator, and nothing else.

This process opens the flows, as the ResourceManager does, and hears when the bytes have arrived.

    with EmulatedNetwork(topology) as network:
        arrivals = network.carry(transfers)
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType

import crc32c

from railyard.benchmarks._network.rackpeers import Fetch, Fetched, RackPeer, peer_name
from railyard.cluster.config import ClusterConfig, Daemon
from railyard.cluster.errors import RailyardError
from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.cluster.machine import CARRIER, take_priority
from railyard.cluster.messages import FlowFailed
from railyard.cluster.messaging.access import take_role
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done
from railyard.cluster.processes import fork, how_it_ended, stop_on_sigterm
from railyard.cluster.topology import Topology
from railyard.netemu.emulator import process as emulator
from railyard.netemu.messages import (
    FinishCoflow,
    GetNetworkStats,
    NetworkStats,
    OpenFlow,
    RegisterCoflow,
)
from railyard.runs import home as clusters


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Bytes to be carried from one node to another, ``start_s`` after the run's beginning."""

    name: str
    src: NodeId
    dst: NodeId
    stored_bytes: int
    start_s: float = 0.0
    coflow: CoflowId | None = None


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """When a transfer began and ended, on the machine's monotonic clock."""

    transfer: Transfer
    started_s: float  #: when the order to start it was given
    began_s: float  #: when its first bytes were at the reader
    finished_s: float


class EmulatedNetwork:
    """An emulator and a peer for each rack, all forked; a context manager.

    No transfer may have more than ``stored_bytes_max`` bytes.
    """

    def __init__(
        self,
        topology: Topology,
        stored_bytes_max: int = 2**24,
        flow_scheduler: str = "maxmin",
    ) -> None:
        self.topology = topology
        self.flow_scheduler = flow_scheduler
        # Whatever ends this process: a command that comes later removes the folder.
        self.folder, self._alive = clusters.new_folder(current=False)
        self.pids: dict[str, int] = {}  #: by name
        #: what transfers carry: each one as much of its beginning as it has bytes
        self._data = os.urandom(stored_bytes_max)
        self._flows = 0
        self._peers: dict[str, Link] = {}
        self._ended: dict[FlowId, Fetched | FlowFailed] = {}

    def __enter__(self) -> EmulatedNetwork:
        gc.collect()
        gc.freeze()  # as those of a cluster, which the supervisor forks
        self.start_emulator()
        for rack in self.topology.rack_list():
            name = f"peer-{rack.id}"
            self._fork(name, partial(self._become_peer, name))
        self.transport = Transport(self.folder)
        self.link = self.transport.link("network")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pid in self.pids.values():
            os.kill(pid, signal.SIGTERM)
        ended = {name: os.waitpid(pid, 0)[1] for name, pid in self.pids.items()}
        self.transport.close()
        self.folder.remove()
        os.close(self._alive)
        gc.unfreeze()
        failed = [f"{name}: {how_it_ended(status)}" for name, status in ended.items() if status]
        if failed and error is None:
            raise RailyardError(f"ended badly: {', '.join(failed)}")

    def start_emulator(self) -> None:
        """Start the emulator, also in place of one that was killed."""
        self._fork("network", self._become_emulator)

    def kill(self, name: str) -> None:
        """Kill one of the processes, and reap it."""
        pid = self.pids.pop(name)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def stats(self) -> NetworkStats:
        """The emulator's counters."""
        return self.link.call(GetNetworkStats(), NetworkStats)

    def begin(self, transfer: Transfer) -> FlowId:
        """Start a transfer now."""
        self._flows += 1
        flow = FlowId(f"{transfer.name}.{self._flows}")
        size_bytes = transfer.stored_bytes * self.topology.scale
        self.link.send(
            OpenFlow(
                flow=flow,
                src=transfer.src,
                dst=transfer.dst,
                size_bytes=size_bytes,
                coflow=transfer.coflow,
                given_s=now_s(),
            )
        )
        self._peer(peer_name(transfer.dst)).send(
            Fetch(flow=flow, peer=peer_name(transfer.src), stored_bytes=transfer.stored_bytes)
        )
        return flow

    def outcome(self, flow: FlowId, timeout_s: float = 60.0) -> Fetched | FlowFailed:
        """Wait for a transfer to end; ``RailyardError`` if it takes longer than that."""
        if not self.transport.reactor.run_until(lambda: flow in self._ended, timeout_s):
            raise RailyardError(f"{flow} did not end within {timeout_s:g} s")
        return self._ended.pop(flow)

    def carry(self, transfers: list[Transfer], timeout_s: float = 60.0) -> list[Arrival]:
        """Carry out transfers and check the bytes that arrived.

        Raises ``RailyardError`` if one fails, or if its bytes are not those that were sent.
        """
        self._connect(transfers)
        coflows = {transfer.coflow: None for transfer in transfers if transfer.coflow}
        for coflow in coflows:
            self.link.call(RegisterCoflow(coflow=coflow), Done)
        began_s = now_s() + 0.01
        started: list[tuple[Transfer, FlowId, float]] = []
        for transfer in sorted(transfers, key=lambda transfer: transfer.start_s):
            self._serve_until(began_s + transfer.start_s)
            started_s = now_s()
            started.append((transfer, self.begin(transfer), started_s))
        outcomes = [self.outcome(flow, timeout_s) for _, flow, _ in started]  # before any check
        arrivals = [
            self._checked(transfer, started_s, outcome)
            for (transfer, _, started_s), outcome in zip(started, outcomes, strict=True)
        ]
        for coflow in coflows:
            self.link.call(FinishCoflow(coflow=coflow), Done)
        return arrivals

    def _serve_until(self, due_s: float) -> None:
        if due_s > now_s():
            self.transport.reactor.run_until(lambda: False, due_s - now_s())

    def _checked(
        self, transfer: Transfer, started_s: float, outcome: Fetched | FlowFailed
    ) -> Arrival:
        if isinstance(outcome, FlowFailed):
            raise RailyardError(f"{outcome.flow} failed: {outcome.reason}")
        sent = crc32c.crc32c(memoryview(self._data)[: transfer.stored_bytes])
        if outcome.checksum != sent:
            raise RailyardError(f"{outcome.flow}: other bytes arrived than were sent")
        return Arrival(
            transfer=transfer,
            started_s=started_s,
            began_s=outcome.began_s,
            finished_s=outcome.finished_s,
        )

    def _connect(self, transfers: list[Transfer]) -> None:
        """Have every connection made that will be needed, as in a cluster that is up."""
        pairs = {(peer_name(t.src), peer_name(t.dst)): t for t in transfers}
        for pair in pairs.values():
            empty = Transfer(name="connect", src=pair.src, dst=pair.dst, stored_bytes=0)
            self._checked(empty, 0.0, self.outcome(self.begin(empty)))

    def _peer(self, name: str) -> Link:
        if name not in self._peers:
            link = self._peers[name] = self.transport.link(name)
            link.on(Fetched, lambda event, _: self._ended.update({event.flow: event}))
            link.on(FlowFailed, lambda event, _: self._ended.update({event.flow: event}))
        return self._peers[name]

    def _become_emulator(self, ready: Callable[[], None]) -> None:
        config = ClusterConfig(topology=self.topology, flow_scheduler=self.flow_scheduler)
        role, name = "NetworkEmulator", "network"
        emulator.main(Daemon(role=role, name=name, folder=self.folder, config=config, ready=ready))

    def _become_peer(self, name: str, ready: Callable[[], None]) -> None:
        take_priority(CARRIER)
        take_role("nodemanager-" + name)  # which may attach to flows
        transport = Transport(self.folder)
        peer = RackPeer(transport, self.topology, name, self._data)
        stop_on_sigterm(transport.reactor)
        ready()
        transport.reactor.run()
        del peer
        transport.close()

    def _fork(self, name: str, main: Callable[[Callable[[], None]], None]) -> None:
        """Run ``main(ready)`` in a child; returns once it is ready."""
        listen, ready = os.pipe()

        def become() -> None:
            os.close(listen)
            main(lambda: os.close(ready))

        self.pids[name] = fork(become)
        os.close(ready)
        os.read(listen, 1)
        os.close(listen)
