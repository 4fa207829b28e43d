"""Sends batches of hostile frames to one daemon after the other; each has to answer after a batch.

A batch goes to one daemon, from several peers.  Then each peer asks the daemon who it is: the
answer comes once all that this peer sent has been handled.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import zmq

from railyard.benchmarks.attacks._grounds.home import Broken, require
from railyard.benchmarks.attacks._hostile.frames import Frame, Frames
from railyard.benchmarks.attacks._hostile.ids import of_nothing
from railyard.benchmarks.attacks._hostile.messages import message_shapes
from railyard.cluster.machine import is_alive
from railyard.cluster.topology import Topology

BATCH = 500
_PEERS = 4
_ANSWER_S = 30.0
_ASK_AGAIN_S = 1.0
_DESCRIBE = 2**40  #: numbers of requests from here on are those that ask who it is
#: After so many batches peers hang up and come again, as others.
_BATCHES_A_PEER = 40
_SHOWN = 5


@dataclass
class Target:
    """A daemon that is attacked."""

    name: str
    address: str
    pid: int
    frames: Frames
    sweep: list[Callable[[random.Random], Frame]]  #: makes a frame for each edge of each field
    peers: list[zmq.Socket[bytes]]
    batches: int = 0
    tried: int = 0
    held: int = 0
    broken: str = ""  #: why nothing is sent to it any more
    slowest_s: float = 0.0  #: from a batch's end to the answer ...
    slowest_batch: int = 0  #: ... and which that was
    jobs: set[str] = field(default_factory=set)  #: that it accepted from us, and run


class Sender:
    """Attacks the daemons with sockets in a folder."""

    def __init__(self, sockets: Path, topology: Topology, seed: int) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._topology = topology
        self._seed = seed
        self._numbers = iter(range(_DESCRIBE, 2**62))
        self.targets = [self._target(path) for path in sorted(sockets.iterdir())]

    def close(self) -> None:
        """Hang up."""
        for target in self.targets:
            for peer in target.peers:
                peer.close(linger=0)
        self._context.term()

    def batch(self, number: int) -> None:
        """Send a batch, unless an earlier one has broken its daemon.

        Raises ``Broken`` if the daemon does not answer any more, or is another process.
        """
        target = self.targets[number % len(self.targets)]
        if target.broken:
            return
        dice = random.Random(f"{self._seed} {number}")
        frames = self.frames(number)
        for frame in frames:
            self._send(dice.choice(target.peers), frame.parts)
        target.tried += len(frames)
        try:
            self._wait_for_answers(target, number)
        except Broken as broken:
            target.broken = f"{broken} after batch {number}"
            raise Broken(target.broken) from None
        target.held += len(frames)
        target.batches += 1
        self._tidy_up(target)
        if target.batches % _BATCHES_A_PEER == 0:
            self._renew(target, dice)

    def frames(self, number: int) -> list[Frame]:
        """The frames of a batch: of its daemon's sweep as long as that lasts, then random ones."""
        target = self.targets[number % len(self.targets)]
        dice = random.Random(f"{self._seed} {number} frames")
        first = number // len(self.targets) * BATCH
        edges = target.sweep[first : first + BATCH]
        swept = [edge(dice) for edge in edges]
        return swept + [target.frames.draw(dice) for _ in range(BATCH - len(swept))]

    # Peers ---------------------------------------------------------------------------------------
    def _peer(self, address: str) -> zmq.Socket[bytes]:
        peer = self._context.socket(zmq.DEALER)
        peer.setsockopt(zmq.SNDHWM, 0)
        peer.setsockopt(zmq.RCVHWM, 0)
        peer.setsockopt(zmq.LINGER, 0)
        peer.connect(address)
        return peer

    def _renew(self, target: Target, dice: random.Random) -> None:
        at = dice.randrange(_PEERS)
        target.peers[at].close(linger=0)
        target.peers[at] = self._peer(target.address)

    def _send(self, peer: zmq.Socket[bytes], parts: tuple[bytes, ...]) -> None:
        peer.send_multipart(parts)

    def _ask(self, peer: zmq.Socket[bytes], message: dict[str, Any]) -> int:
        number = next(self._numbers)
        self._send(peer, (msgpack.packb([number, message]),))
        return number

    # What they answer ----------------------------------------------------------------------------
    def _target(self, path: Path) -> Target:
        address = f"ipc://{path}"
        peers = [self._peer(address) for _ in range(_PEERS)]
        described = self._described(peers[0], path.name)
        known = self._understood(peers[0], path.name)
        frames = Frames(self._topology, known)
        return Target(
            name=path.name,
            address=address,
            pid=described["pid"],
            frames=frames,
            sweep=list(frames.sweep()),
            peers=peers,
        )

    def _described(self, peer: zmq.Socket[bytes], name: str) -> dict[str, Any]:
        """What a daemon says of itself."""
        deadline_s = time.monotonic() + _ANSWER_S
        while time.monotonic() < deadline_s:
            self._ask(peer, {"type": "describe"})
            for number, message in self._answers(peer, _ASK_AGAIN_S):
                if number >= _DESCRIBE and message.get("type") == "description":
                    return message
        raise Broken(f"{name} does not answer within {_ANSWER_S:g} s")

    def _understood(self, peer: zmq.Socket[bytes], name: str) -> tuple[str, ...]:
        """The tags of the messages that a daemon does not refuse as unknown."""
        asked = {self._ask(peer, {"type": tag, "no such": 0}): tag for tag in message_shapes()}
        last = self._ask(peer, {"type": "describe"})
        unknown: set[str] = set()
        deadline_s = time.monotonic() + _ANSWER_S
        while time.monotonic() < deadline_s:
            for number, message in self._answers(peer, _ASK_AGAIN_S):
                if number == last:
                    return tuple(tag for tag in asked.values() if tag not in unknown)
                if number in asked and "unknown message" in str(message.get("reason")):
                    unknown.add(asked[number])
        raise Broken(f"{name} does not answer within {_ANSWER_S:g} s")

    def _wait_for_answers(self, target: Target, batch: int) -> None:
        begun_s = time.monotonic()
        for peer in target.peers:
            described = self._described_among(target, peer)
            pid = described["pid"]
            require(pid == target.pid, f"{target.name} is process {pid}, was {target.pid}")
        took_s = time.monotonic() - begun_s
        if took_s > target.slowest_s:
            target.slowest_s, target.slowest_batch = took_s, batch

    def _described_among(self, target: Target, peer: zmq.Socket[bytes]) -> dict[str, Any]:
        """As ``_described``; jobs that were accepted meanwhile are noted."""
        deadline_s = time.monotonic() + _ANSWER_S
        while time.monotonic() < deadline_s:
            asked = self._ask(peer, {"type": "describe"})
            for number, message in self._answers(peer, _ASK_AGAIN_S):
                if message.get("type") == "job-accepted":
                    target.jobs.add(str(message["job"]))
                if asked >= number >= _DESCRIBE and message.get("type") == "description":
                    return message
            require(is_alive(target.pid), f"{target.name} (process {target.pid}) has ended")
        raise Broken(f"{target.name} does not answer within {_ANSWER_S:g} s")

    def _answers(
        self, peer: zmq.Socket[bytes], patience_s: float
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Number and message of each answer; until none has come for so long."""
        while peer.poll(round(patience_s * 1000)):
            header = peer.recv_multipart()[0]
            number, message = msgpack.unpackb(header, strict_map_key=False)
            yield number, message

    # Afterwards ----------------------------------------------------------------------------------
    def _tidy_up(self, target: Target) -> None:
        """Take back what was ordered by right: it would only slow the others' jobs down."""
        own = of_nothing(self._topology).pools
        orders: list[dict[str, Any]] = []
        if target.name == "network":
            orders += [{"type": "close-flow", "flow": flow} for flow in own["flow"]]
            orders += [{"type": "finish-coflow", "coflow": coflow} for coflow in own["coflow"]]
        if target.jobs:
            orders += [{"type": "kill-job", "job": job} for job in sorted(target.jobs)]
            target.jobs.clear()
        for peer in target.peers:
            for order in orders:
                self._send(peer, (msgpack.packb([0, order]),))


def shown(frames: list[Frame]) -> str:
    """Some frames of a batch, for people."""
    return "\n".join(repr(str(frame)) for frame in frames)
