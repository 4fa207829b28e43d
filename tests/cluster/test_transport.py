"""tests.cluster.test_transport."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import msgpack
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import InvariantError, PeerError, PeerLost, Refused
from railyard.cluster.messages import AttemptSucceeded, NodeLost, Split, TaskSpec
from railyard.cluster.messaging.access import Keys
from railyard.cluster.messaging.transport import Describe, Description, Transport
from railyard.cluster.messaging.wire import (
    HEADER_BYTES_MAX,
    LONG_BYTES_MAX,
    Malformed,
    Message,
    Refusal,
    Unsendable,
    Vocabulary,
    pack,
    to_map,
    unpack,
)
from railyard.cluster.runfolder import RunFolder

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


# Server and Link in one process, on one reactor, over both transports.


class Add(Message, frozen=True, kw_only=True):
    numbers: tuple[int, ...]


class Sum(Message, frozen=True, kw_only=True):
    total: int


@pytest.fixture
def folder(tmp_path_factory):
    folder = RunFolder.create(tmp_path_factory.mktemp("t"))
    yield folder
    folder.remove()


@pytest.fixture(params=["ipc", "tcp"])
def transport(request, folder):
    if request.param == "tcp":
        Keys.create(folder.keys)
    transport = Transport(folder)
    yield transport
    transport.close()


@pytest.fixture
def adder(transport):
    server = transport.server("adder")

    def add(request):
        numbers = request.message.numbers
        if not numbers:
            raise PeerError("nothing to add")
        if numbers == (6, 6, 6):
            raise RuntimeError("a bug")
        return Sum(total=sum(numbers) + len(request.payload or b""))

    server.on(Add, add)
    return server


def test_request_and_reply(transport, adder):
    assert transport.link("adder").call(Add(numbers=(1, 2)), Sum).total == 3


def test_bulk_bytes_travel_beside_the_message(transport, adder):
    assert transport.link("adder").call(Add(numbers=(0,)), Sum, payload=bytes(10**6)).total == 10**6


def test_replies_find_their_requests(transport, adder):
    link, totals = transport.link("adder"), {}
    for n in range(50):
        link.request(Add(numbers=(n, 1)), Sum, lambda got, _, n=n: totals.update({n: got.total}))
    assert transport.reactor.run_until(lambda: len(totals) == 50, timeout_s=5)
    assert totals == {n: n + 1 for n in range(50)}


def test_a_refusal_carries_the_reason(transport, adder):
    with pytest.raises(Refused, match="nothing to add"):
        transport.link("adder").call(Add(numbers=()), Sum)
    assert adder.refused == 1


def test_a_message_with_impossible_fields_is_refused_to_who_asked(transport, adder):
    with pytest.raises(Refused, match="add: Expected `int`, got `str`"):
        transport.link("adder").call(Add(numbers=("one",)), Sum)
    assert adder.refused == 1


def test_a_bug_in_a_handler_refuses_the_message_and_the_server_lives(transport, adder):
    link = transport.link("adder")
    with pytest.raises(Refused, match="failed on it: RuntimeError: a bug"):
        link.call(Add(numbers=(6, 6, 6)), Sum)
    assert link.call(Add(numbers=(1,)), Sum).total == 1


def test_a_broken_invariant_is_not_survived(transport, adder):
    def break_down(_):
        raise InvariantError("two owners")

    adder.on(Add, break_down)
    with pytest.raises(InvariantError):
        transport.link("adder").call(Add(numbers=(1,)), Sum)


def test_nonsense_frames_are_refused_counted_and_survived(folder):
    transport = Transport(folder)
    server = transport.server("adder")
    server.on(Add, lambda request: Sum(total=sum(request.message.numbers)))
    stranger = transport.context.socket(zmq.DEALER)
    stranger.connect(f"ipc://{folder.sockets / 'adder'}")
    nonsense = [[b""], [b"junk"], [b"a", b"b", b"c"], [bytes(10**5)], [b"\xdf" * 9, b"x"]]
    for frames in nonsense:
        stranger.send_multipart(frames)
    assert transport.reactor.run_until(lambda: server.refused == len(nonsense), timeout_s=5)
    described = transport.link("adder").call(Describe(), Description)
    assert (described.name, described.refused) == ("adder", len(nonsense))
    assert transport.link("adder").call(Add(numbers=(4,)), Sum).total == 4
    stranger.close(linger=0)
    transport.close()


def test_a_server_that_never_comes_is_given_up(transport):
    lost = []
    link = transport.link("nobody", on_lost=lambda: lost.append(1), patience_s=0.05)
    with pytest.raises(PeerLost, match="nobody cannot be reached"):
        link.call(Add(numbers=(1,)), Sum)
    assert (link.lost, lost) == (True, [1])


def test_a_link_waits_for_a_server_that_is_late(transport):
    link, totals = transport.link("adder"), []
    link.request(Add(numbers=(1, 2)), Sum, lambda got, _: totals.append(got.total))
    assert not transport.reactor.run_until(lambda: bool(totals), timeout_s=0.05)
    transport.server("adder").on(Add, lambda request: Sum(total=sum(request.message.numbers)))
    assert transport.reactor.run_until(lambda: totals == [3], timeout_s=5)


def test_a_server_that_ends_fails_what_it_owed(transport):
    server = transport.server("adder")
    server.on(Add, lambda request: None)
    link = transport.link("adder")
    answers = []
    link.request(Add(numbers=(1,)), Sum, lambda answer, _: answers.append(answer))
    assert transport.reactor.run_until(lambda: server.requests == 1, timeout_s=5)
    server.close()
    assert transport.reactor.run_until(lambda: bool(answers), timeout_s=5)
    assert "adder is gone" in str(answers[0])
    with pytest.raises(PeerLost):
        link.call(Add(numbers=(1,)), Sum)


def test_a_lost_link_lets_go_of_its_descriptors_and_of_what_was_not_delivered(transport, adder):
    link = transport.link("adder")
    assert link.call(Add(numbers=(1,)), Sum).total == 1
    adder.close()
    assert transport.reactor.run_until(lambda: link.lost, timeout_s=5)
    heard = []
    link.send(Add(numbers=(1,)))
    again = transport.server("adder")
    again.on(Add, lambda request: heard.append(request.message))
    transport.reactor.run_until(lambda: False, 0.3)  # time to connect anew, if it did
    assert (link.closed, heard) == (True, [])


def test_a_transport_closes_what_an_interrupt_left_open(folder, monkeypatch):
    """The interrupt comes when the link has its sockets, and its transport does not know it yet."""
    transport = Transport(folder)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(transport, "_keep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        transport.link("adder")
    closing = threading.Thread(target=transport.close, daemon=True)  # it must not wait for ever
    closing.start()
    closing.join(timeout=20)
    assert not closing.is_alive()


def test_many_lost_links_leave_nothing_behind(transport, adder):
    def open_descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    def lose_links(count):
        links = [transport.link("nobody", patience_s=0.01) for _ in range(count)]
        assert transport.reactor.run_until(lambda: all(link.lost for link in links), timeout_s=5)

    lose_links(4)
    before = open_descriptors()
    for _ in range(4):
        lose_links(2)
    transport.reactor.call_every(0.01, lambda: None)  # ZeroMQ closes them in a thread of its own
    assert transport.reactor.run_until(lambda: open_descriptors() <= before, timeout_s=5)
    assert len(transport._open) <= 3  # the server and the last links


def test_a_push_to_a_peer_that_left_says_so(transport):
    server, peers = transport.server("adder"), []
    server.on(Add, lambda request: peers.append(request.peer) or Sum(total=0))
    link = transport.link("adder")
    link.call(Add(numbers=(1,)), Sum)
    link.close()
    assert transport.reactor.run_until(lambda: not server.push(peers[0], Sum(total=1)), timeout_s=5)


def test_tcp_without_the_clusters_key_gets_nowhere(folder):
    Keys.create(folder.keys)
    transport = Transport(folder)
    server = transport.server("adder")
    server.on(Add, lambda request: Sum(total=1))
    port = int((folder.sockets / "adder.port").read_text())
    stranger = zmq.Context()
    plain = stranger.socket(zmq.DEALER)
    plain.connect(f"tcp://127.0.0.1:{port}")
    plain.send(b"hello")
    curve = stranger.socket(zmq.DEALER)  # knows the server's public key, yet has a key of its own
    curve.curve_publickey, curve.curve_secretkey = zmq.curve_keypair()
    curve.curve_serverkey = zmq.auth.load_certificate(folder.keys / "server.key")[0]
    curve.connect(f"tcp://127.0.0.1:{port}")
    curve.send(b"hello")
    # Our own client is served meanwhile; the strangers' messages never even count as refused.
    assert transport.link("adder").call(Add(numbers=(1,)), Sum).total == 1
    assert not transport.reactor.run_until(lambda: server.refused > 0, timeout_s=0.3)
    stranger.destroy(linger=0)
    transport.close()


class Note(Message, frozen=True, kw_only=True):
    text: str


@pytest.fixture
def echo(transport):
    server = transport.server("echo")
    server.on(Note, lambda request: Note(text=request.message.text))
    server.on(Add, lambda request: Note(text="x" * request.message.numbers[0]))
    return server


def test_a_question_that_is_too_large_is_refused_before_it_is_sent(transport, echo):
    link = transport.link("echo")
    with pytest.raises(Refused, match=r"note: a message of 70,0\d\d bytes: the most is 65,536"):
        link.call(Note(text="x" * 70_000), Note)
    with pytest.raises(Unsendable, match="the most is 65,536"):
        link.send(Note(text="x" * 70_000))
    assert link.call(Note(text="y"), Note).text == "y"


def test_an_answer_that_is_too_large_is_refused_in_so_many_words(transport, echo):
    link = transport.link("echo")
    with pytest.raises(Refused, match=r"note: a message of 70,0\d\d bytes.*: ask for less at once"):
        link.call(Add(numbers=(70_000,)), Note)


@pytest.mark.parametrize("size", [70_000, 20 * 2**20], ids=["64 KiB", "20 MiB"])
def test_whoever_sends_too_large_a_question_is_told(folder, size):
    transport = Transport(folder)
    server = transport.server("echo")
    server.on(Note, lambda request: request.message)
    stranger = transport.context.socket(zmq.DEALER)
    stranger.connect(f"ipc://{folder.sockets / 'echo'}")
    stranger.send(msgpack.packb([7, {"type": "note", "text": "x" * size}]))
    assert transport.reactor.run_until(lambda: server.refused == 1, timeout_s=10)
    number, refusal = unpack(stranger.recv(), Vocabulary([Refusal]))
    assert number == 7
    assert str(refusal).startswith("note: a header of ")
    stranger.close(linger=0)
    transport.close()


def test_an_answer_that_is_none_ends_the_wait(transport):
    server = transport.server("liar")
    server.on(Add, lambda request: server.reply(request, Note(text="what?")) and None)
    with pytest.raises(Refused, match="liar sent an answer that is none: unknown message type"):
        transport.link("liar").call(Add(numbers=(1,)), Sum)


def test_a_flood_of_frames_in_one_message_is_one_refusal(folder):
    transport = Transport(folder)
    server = transport.server("echo")
    stranger = transport.context.socket(zmq.DEALER)
    stranger.connect(f"ipc://{folder.sockets / 'echo'}")
    stranger.send_multipart([b"x"] * 100_000)
    stranger.send_multipart([b"\x92\x00\x81\xa4type\xa8describe"] * 2)
    assert transport.reactor.run_until(lambda: server.requests == 1, timeout_s=10)
    assert server.refused == 1
    stranger.close(linger=0)
    transport.close()


def test_a_flood_of_nonsense_is_a_few_lines_in_the_log(folder, caplog):
    transport = Transport(folder)
    server = transport.server("echo")
    stranger = transport.context.socket(zmq.DEALER)
    stranger.connect(f"ipc://{folder.sockets / 'echo'}")
    for _ in range(2000):
        stranger.send(msgpack.packb([0, {"type": "\x1b[2J" * 1000}]))
    assert transport.reactor.run_until(lambda: server.refused == 2000, timeout_s=10)
    assert transport.reactor.run_until(lambda: "more lines within" in caplog.text, timeout_s=10)
    lines = caplog.text.splitlines()
    assert len(lines) < 100
    assert max(map(len, lines)) < 400
    assert "\x1b" not in caplog.text
    stranger.close(linger=0)
    transport.close()


def test_a_process_gets_only_so_many_connections_and_others_go_on(folder, monkeypatch, caplog):
    monkeypatch.setattr("railyard.cluster.messaging.sockets.OF_A_PROCESS_MAX", 20)
    transport = Transport(folder)
    server = transport.server("adder")
    server.on(Add, lambda request: Sum(total=sum(request.message.numbers)))
    link = transport.link("adder")
    assert link.call(Add(numbers=(1,)), Sum).total == 1
    strangers = [socket.socket(socket.AF_UNIX) for _ in range(60)]
    for stranger in strangers:
        stranger.connect(str(folder.sockets / "adder"))
    doorman = server._doorman
    assert transport.reactor.run_until(lambda: doorman.cut == 41, timeout_s=10)
    assert "adder cuts a connection: too many of process" in caplog.text
    assert link.call(Add(numbers=(2,)), Sum).total == 2
    for stranger in strangers:
        stranger.close()
    assert transport.reactor.run_until(lambda: len(doorman._owners) == 1, timeout_s=10)
    assert transport.link("adder").call(Add(numbers=(3,)), Sum).total == 3
    transport.close()
