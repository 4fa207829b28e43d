"""Drains nodes: has the NameNode move their replicas, and the core do without their slots.

Which nodes are drained is in the core, and so in its journal.  The NameNode is sent all of them
again and again, so that it knows them after a restart, and answers what they have yet.

Never here: when an attempt ends, where a replica goes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId
from railyard.cluster.messages import DrainStarted, NodeActivated
from railyard.cluster.messaging.access import CLIENT
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import Done, Message, Refusal
from railyard.dfs.messages import DrainingNodes, DrainNodes
from railyard.resourcemanager.process.driver import Driver
from railyard.resourcemanager.process.messages import ActivateNode, DrainNode
from railyard.resourcemanager.process.nodemanagers import NodeManagers

log = logging.getLogger(__name__)

#: How often the NameNode is asked what is left.
_PERIOD_S = 0.5


@dataclass(eq=False)
class Drains:
    """The nodes that are, or are being, drained."""

    _driver: Driver
    _server: Server
    _namenode: LastingLink
    _managers: NodeManagers

    def __post_init__(self) -> None:
        #: {drained node: how many replicas the NameNode says that it has}
        self.replicas: Mapping[NodeId, int] = {}
        self._awaits_answer = False  #: whether the NameNode has been asked and has not answered
        #: one is decided after the other, so that two don't count on each other's node
        self._requests: deque[Request[DrainNode]] = deque()
        self._server.on(DrainNode, self._drain, (CLIENT,))
        self._server.on(ActivateNode, self._activate, (CLIENT,))
        self._driver.reactor.call_every(_PERIOD_S, self._send)

    def _drain(self, request: Request[DrainNode]) -> None:
        """Begin to drain a node, if the NameNode can do without it.  Raises ``PeerError``."""
        self._check(request.message.node)
        self._requests.append(request)
        if len(self._requests) == 1:
            self._drain_next()

    def _drain_next(self) -> None:
        request = self._requests[0]
        node = request.message.node
        wanted = tuple(dict.fromkeys((*self._drained(), node)))

        def answered(answer: DrainingNodes | Refusal, _: object) -> None:
            self._server.reply(request, self._decide(request.message, answer))
            self._requests.popleft()
            if self._requests:
                self._drain_next()

        self._namenode.insist(DrainNodes(nodes=wanted, new=node), DrainingNodes, answered)

    def _decide(self, message: DrainNode, answer: DrainingNodes | Refusal) -> Message:
        """The answer to a client; the node is drained unless it was refused, or lost meanwhile."""
        if isinstance(answer, Refusal):
            return answer
        try:
            self._check(message.node)
        except PeerError as error:
            return Refusal.because(error)
        self.replicas = {**self.replicas, **answer.replicas}
        self._driver.feed(DrainStarted(node=message.node, kill=message.now))
        self._driver.settle()
        log.info("%s is drained", message.node)
        return Done()

    def _activate(self, request: Request[ActivateNode]) -> Message:
        """Take a node back, unless it is.  Raises ``PeerError`` if there is no such node."""
        node = request.message.node
        slots = self._managers.slots_of(node)
        if node not in self._drained():
            return Done()
        self._driver.feed(NodeActivated(node=node, slots=slots))
        self._driver.settle()
        self._send()
        log.info("%s takes attempts and replicas again", node)
        return Done()

    def _drained(self) -> list[NodeId]:
        return [node.id for node in self._driver.core.state.nodes.values() if node.draining]

    def _check(self, name: NodeId) -> None:
        nodes = self._driver.core.state.nodes
        node = nodes.get(name)
        if node is None:
            raise PeerError(f"{name} has not joined: there is nothing to drain")
        if not node.alive:
            raise PeerError(f"{name} is lost ({node.lost_because}): there is nothing to drain")
        others = [each for each in nodes.values() if each.alive and not each.draining]
        if all(each is node for each in others) and not node.draining:
            raise PeerError(f"{name} can't be drained: it is the last node that takes attempts")

    def _send(self) -> None:
        if self._awaits_answer:
            return
        self._awaits_answer = True
        drained = self._drained()

        def answered(answer: DrainingNodes | Refusal, _: object) -> None:
            self._awaits_answer = False
            if isinstance(answer, DrainingNodes):
                self.replicas = answer.replicas
            elif not answer.unable:  # as in safe mode
                log.error("the NameNode refused to drain %s: %s", " ".join(drained), answer.reason)

        self._namenode.insist(DrainNodes(nodes=tuple(drained)), DrainingNodes, answered)
