"""What hostile frames are made of: all messages, all fields, all edges."""

import random
from typing import Annotated

import msgpack
import msgspec
import pytest

from railyard.benchmarks.attacks._grounds.home import SMALL
from railyard.benchmarks.attacks._hostile.frames import ORDERS, Frames
from railyard.benchmarks.attacks._hostile.ids import of_nothing, of_running
from railyard.benchmarks.attacks._hostile.messages import message_shapes
from railyard.benchmarks.attacks._hostile.values import Values
from railyard.cluster.messaging.wire import Message
from railyard.cluster.topology import load_topology
from railyard.dfs.messages.blocks import WriteBlock
from railyard.netemu.messages import OpenFlow

TOPOLOGY = load_topology(str(SMALL))


@pytest.fixture(scope="module")
def frames():
    return Frames(TOPOLOGY, tuple(message_shapes()))


def opened(frame):
    """The message of a frame; None if it is no sound header."""
    try:
        number, message = msgpack.unpackb(frame.parts[0], strict_map_key=False)
    except Exception:
        return None
    return message if isinstance(number, int) and isinstance(message, dict) else None


def leaves(value):
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value


def test_shapes_of_all_message_classes_are_found():
    shapes = message_shapes()
    assert {OpenFlow.tag(), WriteBlock.tag(), "describe", "read-outputs", "kill-job"} <= set(shapes)
    assert len(shapes) > 100


def test_all_fields_of_all_messages_are_swept(frames):
    swept = {(make.args[0], make.args[1].encode_name) for make in frames.sweep()}
    shapes = message_shapes().items()
    assert swept == {(tag, field.encode_name) for tag, shape in shapes for field in shape.fields}


def test_every_edge_can_be_packed(frames):
    for number, make in enumerate(frames.sweep()):
        assert make(random.Random(number)).parts


def test_the_same_seed_makes_the_same_frames(frames):
    first, again = random.Random(5), random.Random(5)
    assert [frames.draw(first) for _ in range(500)] == [frames.draw(again) for _ in range(500)]


def test_random_frames_are_of_all_messages(frames):
    dice = random.Random(6)
    messages = filter(None, (opened(frames.draw(dice)) for _ in range(8000)))
    assert set(message_shapes()) <= {str(message.get("type")) for message in messages}


class Bounded(Message, frozen=True, kw_only=True):
    whole: Annotated[int, msgspec.Meta(ge=3, le=10)]
    real: Annotated[float, msgspec.Meta(gt=0, le=2.5)]
    names: tuple[str, ...]


def values_of(field_name, dice=None):
    [field] = [
        field
        for field in msgspec.inspect.type_info(Bounded).fields
        if field.encode_name == field_name
    ]
    values = Values(dice or random.Random(7), of_running(TOPOLOGY))
    return [edge() for edge in values.edges(field.type, field.encode_name)], values, field


def test_edges_are_the_bounds_and_what_is_next_to_them():
    whole = values_of("whole")[0]
    assert {2, 3, 4, 9, 10, 11, 2**63, -(2**63)} <= {v for v in whole if isinstance(v, int)}
    real = values_of("real")[0]
    assert {0.0, 5e-324, 2.5, 2.5000000000000004} <= {v for v in real if isinstance(v, float)}
    assert any(v != v for v in real)
    assert any(v == [] for v in values_of("names")[0])


def test_sound_values_are_within_the_bounds():
    made = [values_of(name)[1:] for name in ("whole", "real", "names")]
    for _ in range(300):
        fields = {f.encode_name: values.sound(f.type, f.encode_name) for values, f in made}
        msgspec.convert({"type": Bounded.tag(), **fields}, Bounded)


def test_orders_that_anybody_may_give_name_nobodys_things(frames):
    pools = of_running(TOPOLOGY).pools
    theirs = {name for pool in ("job", "flow", "coflow", "path", "link") for name in pools[pool]}
    dice = random.Random(8)
    orders = Frames(TOPOLOGY, tuple(sorted(ORDERS)))
    own = set(of_nothing(TOPOLOGY).pools["path"])
    seen = 0
    for _ in range(6000):
        message = opened(orders.draw(dice))
        if message is None or str(message.get("type")) not in ORDERS:
            continue
        about = {k: v for k, v in message.items() if k in ("job", "path", "flow", "coflow", "link")}
        named = {leaf for leaf in leaves(about) if isinstance(leaf, str)}
        assert not named & theirs, message
        if message["type"] == "set-slots":
            assert message.get("node") not in list(pools["one_node"]), message
        seen += bool(named & own)
    assert seen > 100
    assert set(message_shapes()) >= ORDERS, "an order is called otherwise now: see ORDERS"
