import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import PeerError
from cluster.messages.execution import AttemptSucceeded, NodeLost, Split, TaskSpec
from cluster.wire import MAX_HEADER_BYTES, Vocabulary, pack, to_map, unpack

KNOWN = Vocabulary([AttemptSucceeded])
EVENT = AttemptSucceeded(attempt="j3.m7.0", partition_bytes=(1, 2), counters={"records": 5})


def test_a_message_arrives_as_it_was_sent():
    assert unpack(pack(EVENT, 7), KNOWN) == (7, EVENT)


def test_a_tag_is_the_class_name_in_kebab_case():
    assert to_map(EVENT)["type"] == AttemptSucceeded.tag() == "attempt-succeeded"


def test_nested_structures_arrive_typed():
    split = Split(path="/in", stored_offset=0, stored_length=9)
    task = TaskSpec(stage="m", index=0, splits=(split,))
    assert (
        msgpack.unpackb(msgpack.packb(to_map(NodeLost(node="r0n0", reason="x"))))["node"] == "r0n0"
    )
    assert task.splits[0].path == "/in"


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "not MessagePack"),
        (b"\xc1", "not MessagePack"),
        (b"GET / HTTP/1.1\r\n", "not MessagePack"),
        (b"\xdf\xff\xff\xff\xff", "not MessagePack"),
        (msgpack.packb(3), "envelope"),
        (msgpack.packb(["x", {}]), "envelope"),
        (msgpack.packb([1, 2]), "must be a map"),
        (msgpack.packb([1, {}]), "unknown message type None"),
        (pack(NodeLost(node="r0n0", reason="x")), "unknown message type 'node-lost'"),
        (msgpack.packb([1, {"type": "attempt-succeeded"}]), "missing required field `attempt`"),
        (msgpack.packb([1, {"type": "attempt-succeeded", "attempt": 3}]), "Expected `str`"),
        (
            msgpack.packb([1, {"type": "attempt-succeeded", "attempt": "a", "x": 1}]),
            "unknown field",
        ),
        (bytes(MAX_HEADER_BYTES + 1), "a header of"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_nonsense_is_refused_with_the_reason(frame, why):
    with pytest.raises(PeerError, match=why):
        unpack(frame, KNOWN)


@given(st.binary(max_size=200))
def test_no_frame_raises_anything_but_a_peer_error(frame):
    with pytest.raises(PeerError):
        unpack(frame, KNOWN)
