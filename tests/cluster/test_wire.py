import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import PeerError
from railyard.cluster.messages.execution import AttemptSucceeded, NodeLost, Split, TaskSpec
from railyard.cluster.messaging.wire import (
    HEADER_BYTES_MAX,
    LONG_BYTES_MAX,
    Malformed,
    Unsendable,
    Vocabulary,
    pack,
    to_map,
    unpack,
)

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
        (b"GET / HTTP/1.1\r\n", "envelope"),
        (b"\xdf\xff\xff\xff\xff", "envelope"),
        (msgpack.packb(3), "envelope"),
        (msgpack.packb(["x", {}]), "envelope"),
        (msgpack.packb([1, 2]), "envelope"),
        (msgpack.packb([-1, {}]), "envelope"),
        (msgpack.packb([1, {}]), "unknown message type None"),
        (pack(NodeLost(node="r0n0", reason="x")), "unknown message type 'node-lost'"),
        (msgpack.packb([1, {"type": "attempt-succeeded"}]), "missing required field `attempt`"),
        (msgpack.packb([1, {"type": "attempt-succeeded", "attempt": 3}]), "Expected `str`"),
        (
            msgpack.packb([1, {"type": "attempt-succeeded", "attempt": "a", "x": 1}]),
            "unknown field",
        ),
        (bytes(HEADER_BYTES_MAX + 1), "unknown message type None: a header of 65,537 bytes"),
        (msgpack.packb([1, {"type": "x" * 9999}]), r"unknown message type 'x{79}\.\.\."),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_nonsense_is_refused_with_the_reason(frame, why):
    with pytest.raises(PeerError, match=why):
        unpack(frame, KNOWN)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "node-lost", "node": "r0n0", "reason": "x" * HEADER_BYTES_MAX},
        {"type": "attempt-succeeded", "attempt": "a", "counters": {"x" * LONG_BYTES_MAX: 1}},
        {"type": "attempt-succeeded", "attempt": "a", "input_bytes": -1},
        {"type": "nobody-knows", "why": "x" * HEADER_BYTES_MAX},
        3,
    ],
    ids=["default limit", "its own limit", "a field", "unknown", "no map"],
)
def test_the_number_of_who_asked_is_read_first(message):
    known = Vocabulary([AttemptSucceeded, NodeLost])
    with pytest.raises(Malformed) as refused:
        unpack(msgpack.packb([7, message]), known)
    assert refused.value.request == 7
    assert len(str(refused.value)) < 300


def test_what_is_larger_than_its_class_allows_is_not_packed():
    with pytest.raises(Unsendable, match=r"node-lost: a message of 65,5\d\d bytes: the most is"):
        pack(NodeLost(node="r0n0", reason="x" * HEADER_BYTES_MAX))
    many = AttemptSucceeded(attempt="j3.m7.0", partition_bytes=(2**50,) * 10**5)
    assert len(pack(many)) > HEADER_BYTES_MAX  # this class may
    with pytest.raises(Unsendable, match="more than 64 bits"):
        pack(AttemptSucceeded(attempt="j3.m7.0", input_bytes=2**64))


def test_what_is_nested_too_deep_is_refused():
    frame = b"\x92\x01\x82\xa4type\xb1attempt-succeeded\xa8counters" + b"\x91" * 10**4
    with pytest.raises(PeerError):
        unpack(frame, KNOWN)


@given(st.binary(max_size=200))
def test_no_frame_raises_anything_but_a_peer_error(frame):
    with pytest.raises(PeerError):
        unpack(frame, KNOWN)
