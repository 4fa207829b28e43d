"""Hostile frames, made of the message classes' own types; the same seed makes the same frames.

Most have a valid shape and one field, or several, at an edge of its type; the others have fields
missing or too many, bits flipped, an end cut off, payloads nobody asked for.

Any client may give a daemon some orders: kill a job, remove a file, close a flow.  Such orders
(``ORDERS``) only name things that nobody else uses.  All other messages name the jobs and nodes of
the cluster: a report from a process that is not responsible for them must change nothing.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgpack
from msgspec import inspect

from railyard.benchmarks.attacks._hostile.ids import of_nothing, of_running
from railyard.benchmarks.attacks._hostile.messages import message_shapes
from railyard.benchmarks.attacks._hostile.values import Values
from railyard.cluster.topology import Topology

#: What any client may order, about anything.
ORDERS = frozenset(
    {
        "kill-job",
        "remove",
        "move-files",
        "create-file",
        "add-block",
        "complete-file",
        "abandon-file",
        "write-block",
        "open-flow",
        "set-capacity",
        "set-slots",
    }
)
#: Their fields that say about what, and that keep to nobody's things even at the edges.
_ABOUT = frozenset(
    {
        "job",
        "path",
        "source",
        "target",
        "folders",
        "markers",
        "moves",
        "gathers",
        "remove",
        "file",
        "block",
        "blocks",
        "instead_of",
        "flow",
        "coflow",
        "link",
        "node",
    }
)
_PAYLOADS = (b"", b"x", b"chunk" * 100, bytes(70_000))
_DEPTH = 40


@dataclass(frozen=True)
class Frame:
    """The frames of one message, as they are sent."""

    parts: tuple[bytes, ...]
    what: str  #: the message's tag, and what was done to it

    def __str__(self) -> str:
        try:
            said = str(msgpack.unpackb(self.parts[0], strict_map_key=False))
        except Exception:  # that it is no sound header may be the point
            said = str(self.parts[:1])
        payload = f" and {[len(part) for part in self.parts[1:]]} bytes" * (len(self.parts) != 1)
        return f"{self.what}: {said[:400]}{payload}"


class Frames:
    """Makes frames for one daemon; ``known`` are the tags of the messages that it understands."""

    def __init__(self, topology: Topology, known: tuple[str, ...]) -> None:
        self._shapes = message_shapes()
        self._running, self._nothing = of_running(topology), of_nothing(topology)
        self._known = known
        self._unknown = tuple(tag for tag in self._shapes if tag not in known)

    def sweep(self) -> Iterator[Callable[[random.Random], Frame]]:
        """A frame for each edge of each field of each message that is understood."""
        for tag in self._known:
            for field in self._shapes[tag].fields:
                count = len(self._values(random.Random(0), tag).edges(field.type, ""))
                for edge in range(count):
                    yield functools.partial(self._at_edge, tag, field, edge)

    def draw(self, dice: random.Random) -> Frame:
        """A random frame."""
        other = dice.random() < 0.05 and self._unknown
        tag = dice.choice(self._unknown if other else self._known)
        make = dice.choices(
            (self._one_bad, self._several_bad, self._sound, self._other_shape, self._broken),
            weights=(40, 20, 15, 12, 13),
        )[0]
        return make(tag, dice)

    # Messages ------------------------------------------------------------------------------------
    def _at_edge(self, tag: str, field: inspect.Field, edge: int, dice: random.Random) -> Frame:
        edges = self._values(dice, tag).edges(field.type, field.encode_name)
        value = edges[edge % len(edges)]()
        return self._packed(tag, self._message(tag, dice, {field.encode_name: value}), dice)

    def _one_bad(self, tag: str, dice: random.Random) -> Frame:
        return self._bad(tag, dice, 1)

    def _several_bad(self, tag: str, dice: random.Random) -> Frame:
        return self._bad(tag, dice, dice.randrange(1, 9))

    def _bad(self, tag: str, dice: random.Random, count: int) -> Frame:
        fields = list(self._shapes[tag].fields)
        chosen = dice.sample(fields, min(count, len(fields)))
        values = self._values(dice, tag)
        bad = {f.encode_name: values.hostile(f.type, f.encode_name) for f in chosen}
        return self._packed(tag, self._message(tag, dice, bad), dice)

    def _sound(self, tag: str, dice: random.Random) -> Frame:
        return self._packed(tag, self._message(tag, dice, {}), dice)

    def _other_shape(self, tag: str, dice: random.Random) -> Frame:
        """Fields missing, surplus or misnamed, or no message at all."""
        message = self._message(tag, dice, {})
        for _ in range(dice.choice((1, 1, 2))):
            name = dice.choice([*message, "type"])
            what = dice.randrange(5)
            if what == 0:
                message.pop(name, None)
            elif what == 1:
                message[dice.choice(("", "x", "typ", "__class__", "\0"))] = dice.choice((0, [], {}))
            elif what == 2:
                message["type"] = dice.choice((None, 7, "", "Message", [], {}, "x" * 70_000))
            elif what == 3:
                message[name] = dict(message)
        plain: Any = message if dice.random() < 0.9 else list(message.values())
        return self._packed(tag, plain, dice)

    def _message(self, tag: str, dice: random.Random, bad: dict[str, Any]) -> dict[str, Any]:
        """A sound message but for the ``bad`` fields."""
        values = self._values(dice, tag)
        message: dict[str, Any] = {"type": tag}
        for field in self._shapes[tag].fields:
            name = field.encode_name
            spared = tag in ORDERS and name in _ABOUT
            if name in bad and not (spared and _may_be_somebodys(bad[name])):
                message[name] = bad[name]
            elif field.required or spared or dice.random() < 0.6:
                message[name] = values.sound(field.type, name)
        return message

    def _values(self, dice: random.Random, tag: str) -> Values:
        return Values(dice, self._nothing if tag in ORDERS else self._running)

    # Frames --------------------------------------------------------------------------------------
    def _packed(self, tag: str, plain: Any, dice: random.Random) -> Frame:
        header = _pack([self._number(dice), plain])
        if dice.random() < (0.6 if "chunk" in tag else 0.05):
            return Frame((header, dice.choice(_PAYLOADS)), tag)
        return Frame((header,), tag)

    def _number(self, dice: random.Random) -> int:
        return dice.choice((0, 0, 0, dice.randrange(1, 2**31), dice.randrange(1, 100)))

    def _broken(self, tag: str, dice: random.Random) -> Frame:
        """What is no header any more, or comes in too many or too few frames."""
        header = _pack([self._number(dice), self._message(tag, dice, {})])
        what = dice.randrange(6)
        if what == 0:
            cut = header[: dice.randrange(len(header))]
            return Frame((cut,), f"{tag} cut short to {len(cut)} bytes")
        if what == 1:
            return Frame((_flipped(header, dice),), f"{tag} with bits flipped")
        if what == 2:
            parts = tuple(
                dice.choice((b"", header, b"x")) for _ in range(dice.choice((1, 3, 4, 9)))
            )
            return Frame(parts, f"{tag} in {len(parts)} frames")
        if what == 3:
            number: object = dice.choice((-1, 2**63, 2**64 - 1, "1", None, 1.5, [], True))
            envelope = [number, self._message(tag, dice, {})]
            return Frame((_pack(envelope),), f"{tag} with the number {number}")
        if what == 4:
            others: tuple[object, ...] = ([], [1], [1, 2, 3], {}, "x", [1, None], [1, []], [1, 1])
            return Frame((_pack(dice.choice(others)),), "another envelope")
        deep = b"\x91" * dice.choice((_DEPTH, 600, 40_000)) + b"\x90"
        return Frame((dice.choice((deep, dice.randbytes(300), b"\xc1", b"")),), "no MessagePack")


def _may_be_somebodys(value: Any) -> bool:
    """Whether this could name a thing of the running cluster."""
    if isinstance(value, dict):
        return any(_may_be_somebodys(inner) for inner in value.values())
    if isinstance(value, list):
        return any(map(_may_be_somebodys, value[:1000]))
    if isinstance(value, str):
        return len(value) < 100 and value.isprintable()
    return isinstance(value, int) and 0 <= value < 2**40


def _pack(plain: Any) -> bytes:
    return bytes(msgpack.packb(plain, use_bin_type=True, strict_types=False))


def _flipped(data: bytes, dice: random.Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8))):
        flipped[dice.randrange(len(flipped))] ^= 1 << dice.randrange(8)
    return bytes(flipped)
