"""Nothing in any message is unbounded: checked on all classes, so that none can be forgotten.

``BOUNDARY`` are the values that break programs; each is put into every number of every message.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from msgspec import inspect

import railyard.cluster.messages
import railyard.cluster.messaging.transport
import railyard.cluster.messaging.wire
import railyard.dfs.messages
import railyard.dfs.namenode.core
import railyard.netemu.messages
import railyard.nodemanager.messages
import railyard.resourcemanager.interface.commands
import railyard.resourcemanager.interface.events
import railyard.resourcemanager.process.messages
from railyard.cluster.errors import PeerError
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.wire import (
    BYTES_MAX,
    Command,
    Event,
    Message,
    Vocabulary,
    to_map,
    unpack,
)

MODULES = (
    railyard.cluster.messaging.wire,
    railyard.cluster.messaging.transport,
    railyard.cluster.messages,
    railyard.dfs.messages,
    railyard.dfs.messages,
    railyard.dfs.messages,
    railyard.netemu.messages,
    railyard.nodemanager.messages,
    railyard.resourcemanager.interface.events,
    railyard.resourcemanager.process.messages,
)
BOUNDARY: tuple[float, ...] = (
    *(0, -1, 2**31, 2**53, 2**53 + 1, BYTES_MAX, BYTES_MAX + 1, 2**63 - 1, 2**63, 2**64 - 1),
    *(math.nan, math.inf, -math.inf, 5e-324, 1e-310, 1e308, -1e308, -0.0),
)
#: What is infinite for a reason: no limit, no such time.
MAY_BE_INFINITE = {
    "set-capacity.bytes_per_s",
    "open-flow.given_s",
    "resume-coflows.flows[].given_s",
    "network-stats.capacities[]",
    "network-stats.cross_rack_room_bytes",
    "network-view.links[].capacity_bytes_per_s",
    "network-view.links[].free_bytes_per_s",
    "network-view.circuits[].ready_s",
    "links-observed.links[].capacity_bytes_per_s",
    "links-observed.links[].free_bytes_per_s",
    "network-view.rates_bytes_per_s[]",
}
#: What each job says itself, and its own class checks; and the summary, which only people read.
UNTYPED = {"params[]", "summary[]"}


def _messages() -> list[type[Message]]:
    found = {
        kind.tag(): kind
        for module in MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Message)
    }
    for base in (Message, Event, Command):
        found.pop(base.tag(), None)
    return list(found.values())


def _leaves(type_: inspect.Type, path: str) -> Iterator[tuple[str, inspect.Type]]:
    """All types within a type that have no parts, and all collections, with where they are."""
    match type_:
        case inspect.StructType() | inspect.NamedTupleType():
            for field in type_.fields:
                yield from _leaves(field.type, f"{path}.{field.name}")
        case inspect.UnionType():
            for each in type_.types:
                yield from _leaves(each, path)
        case inspect.VarTupleType() | inspect.ListType():
            yield path, type_
            yield from _leaves(type_.item_type, f"{path}[]")
        case inspect.TupleType():
            for number, each in enumerate(type_.item_types):
                yield from _leaves(each, f"{path}[{number}]")
        case inspect.DictType():
            yield path, type_
            yield from _leaves(type_.key_type, f"{path}{{}}")
            yield from _leaves(type_.value_type, f"{path}[]")
        case inspect.Metadata():
            yield from _leaves(type_.type, path)
        case _:
            yield path, type_


def _is_bounded(path: str, type_: inspect.Type) -> bool:
    match type_:
        case inspect.IntType():
            return type_.ge is not None and type_.le is not None
        case inspect.FloatType():
            return type_.ge is not None and (type_.le is not None or path in MAY_BE_INFINITE)
        case (
            inspect.StrType()
            | inspect.BytesType()
            | inspect.VarTupleType()
            | inspect.ListType()
            | inspect.DictType()
        ):
            return type_.max_length is not None
        case inspect.AnyType():
            return any(path.endswith(known) for known in UNTYPED)
        case inspect.BoolType() | inspect.NoneType() | inspect.LiteralType():
            return True
    return False


@pytest.mark.parametrize("kind", _messages(), ids=lambda kind: kind.__name__)
def test_every_part_of_a_message_is_bounded(kind: type[Message]) -> None:
    unbounded = [
        f"{path}: {type(type_).__name__}"
        for path, type_ in _leaves(inspect.type_info(kind), kind.tag())
        if not _is_bounded(path, type_)
    ]
    assert unbounded == [], "take its type from cluster/messaging/wire.py"


def _sample(type_: inspect.Type) -> Any:  # noqa: C901 - a case for each type
    """The least value of a type, as it is on the wire."""
    match type_:
        case inspect.StructType() if type_.array_like:
            return [_sample(field.type) for field in type_.fields]
        case inspect.StructType():
            tag = {} if type_.tag is None else {type_.tag_field: type_.tag}
            return tag | {field.encode_name: _sample(field.type) for field in type_.fields}
        case inspect.NamedTupleType():
            return [_sample(field.type) for field in type_.fields]
        case inspect.UnionType():
            whole = [each for each in type_.types if not isinstance(each, inspect.NoneType)]
            return _sample(whole[0])
        case inspect.VarTupleType() | inspect.ListType():
            return [_sample(type_.item_type)]
        case inspect.TupleType():
            return [_sample(each) for each in type_.item_types]
        case inspect.DictType():
            return {_sample(type_.key_type): _sample(type_.value_type)}
        case inspect.Metadata():
            return _sample(type_.type)
        case inspect.IntType() | inspect.FloatType():
            return type_.ge
        case inspect.StrType() | inspect.AnyType():
            return "x"
        case inspect.BytesType():
            return b""
        case inspect.BoolType():
            return False
        case inspect.LiteralType():
            return type_.values[0]
    return None


def _with_each_number_replaced(plain: Any, value: float) -> Iterator[Any]:
    """``plain`` again and again, each time with another of its numbers replaced."""
    if isinstance(plain, dict):
        for key, old in plain.items():
            for new in _with_each_number_replaced(old, value):
                yield {**plain, key: new}
    elif isinstance(plain, list):
        for at, old in enumerate(plain):
            for new in _with_each_number_replaced(old, value):
                yield [*plain[:at], new, *plain[at + 1 :]]
    elif isinstance(plain, int | float) and not isinstance(plain, bool):
        yield value


def _numbers_in(plain: Any) -> Iterator[float]:
    if isinstance(plain, dict):
        for each in plain.values():
            yield from _numbers_in(each)
    elif isinstance(plain, list | tuple):
        for each in plain:
            yield from _numbers_in(each)
    elif isinstance(plain, int | float):
        yield plain


@pytest.mark.parametrize("kind", _messages(), ids=lambda kind: kind.__name__)
def test_a_number_at_any_boundary_is_refused_or_harmless(kind: type[Message]) -> None:
    vocabulary = Vocabulary([kind])
    plain = _sample(inspect.type_info(kind))
    assert unpack(msgpack.packb([7, plain]), vocabulary)[0] == 7  # the sample itself is sound
    for value in BOUNDARY:
        for hostile in _with_each_number_replaced(plain, value):
            try:
                _, message = unpack(msgpack.packb([7, hostile]), vocabulary)
            except PeerError:
                continue
            for number in _numbers_in(to_map(message)):
                if isinstance(number, int):
                    assert -(2**63) <= number < 2**63
                else:
                    assert number >= -BYTES_MAX  # and is a number at all


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, 1e308, 1e11])
def test_no_time_is_out_of_a_clocks_reach(seconds: float) -> None:
    reactor = Reactor()
    with pytest.raises(ValueError, match=r"when_s = .*: need seconds, finite and at most 1e\+10"):
        reactor.call_at(seconds, lambda: None)
    reactor.close()
