"""A ResourceManager that is stopped, replaced by another, and continued: it acts no more."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.cluster.messages.execution import (
    AttemptSucceeded,
    DiscardJob,
    FactsJournaled,
    HeldAttempt,
    KillAttempt,
    LaunchAttempt,
    LoadJob,
    NodeManagerHolds,
    RegisterNodeManager,
)
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done, Message
from railyard.jobs.model import StageSpec
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.process.main import main
from railyard.resourcemanager.process.messages import JobAccepted, JobEnded, SubmitJob, WatchJob
from tests.cluster_fixture import MiniCluster
from tests.harness import tiny_cluster
from tests.resourcemanager.standins import PACKAGE
from tests.waiting import wait_for

NAME = "resourcemanager"
ORDERS = (LoadJob, LaunchAttempt, KillAttempt, DiscardJob, FactsJournaled)


class Rack:
    """A stand-in for the NodeManager of r0, which goes on while ResourceManagers come and go."""

    def __init__(self, transport: Transport) -> None:
        self.reactor = transport.reactor
        self.orders: list[Message] = []
        self.connections = 0
        self._link = LastingLink(transport, NAME, self._register_again)
        for kind in ORDERS:
            self._link.on(kind, lambda order, _: self.orders.append(order))
        self._link.insist(self._registration(again=False), Done, lambda *_: None)

    def send(self, message: Message) -> None:
        self._link.send(message)

    def wait_for(self, kind: type, count: int) -> list[Any]:
        def came() -> list[Any]:
            return [order for order in self.orders if isinstance(order, kind)]

        assert self.reactor.run_until(lambda: len(came()) >= count, 10), kind
        return came()

    def _registration(self, *, again: bool) -> RegisterNodeManager:
        return RegisterNodeManager(rack="r0", pid=os.getpid(), nodes={"r0n0": 2}, again=again)

    def _register_again(self) -> None:
        self.connections += 1
        self._link.insist(self._registration(again=True), Done, self._hold)

    def _hold(self, *_: object) -> None:
        held = tuple(
            HeldAttempt(attempt=f"j1.m{task}.0", node="r0n0", has_slot=True, killed=False)
            for task in range(2)
        )
        self.send(NodeManagerHolds(rack="r0", attempts=held, flows=(), jobs=("j1",)))


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_it_ends_itself_and_the_other_goes_on(tmp_path_factory: Any):
    config = ClusterConfig(topology=tiny_cluster().topology)
    with MiniCluster(tmp_path_factory.mktemp("t"), config, {NAME: main}) as cluster:
        transport = Transport(cluster.folder)
        rack, ended = Rack(transport), list[JobEnded]()
        client = LastingLink(transport, NAME)
        client.on(JobEnded, lambda message, _: ended.append(message))
        wanted = SubmitJob(name="j", package=PACKAGE, stages=(StageSpec(name="m", tasks=2),))
        assert client.call(wanted, JobAccepted).job == "j1"
        rack.wait_for(LaunchAttempt, 2)

        old = cluster.pids[NAME]
        os.kill(old, signal.SIGSTOP)
        rack.send(AttemptSucceeded(attempt="j1.m0.0"))  # the old one has it, and has not read it
        cluster.start(NAME)
        assert transport.reactor.run_until(lambda: rack.connections == 1, 10)
        rack.send(AttemptSucceeded(attempt="j1.m0.0"))
        os.kill(old, signal.SIGCONT)
        wait_for(lambda: not exists(old), 10, "the old one ends")

        client.insist(WatchJob(job="j1"), Done, lambda *_: None)
        rack.send(AttemptSucceeded(attempt="j1.m1.0"))
        assert transport.reactor.run_until(lambda: bool(ended), 10), cluster.logs()
        assert ended[0].ok
        launched = [order.attempt for order in rack.wait_for(LaunchAttempt, 2)]
        assert sorted(launched) == ["j1.m0.0", "j1.m1.0"]  # each once
        rack.wait_for(DiscardJob, 1)
        told = [step.event for step in replay(cluster.folder.events)]
        succeeded = [each.attempt for each in told if isinstance(each, AttemptSucceeded)]
        assert succeeded == ["j1.m0.0", "j1.m1.0"]
        transport.close()
