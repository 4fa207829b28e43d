"""A link that reconnects: the outcome of its requests when the connection breaks."""

import errno

import pytest
import zmq

from railyard.cluster.errors import PeerLost
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Description, Transport
from railyard.cluster.messaging.wire import Message
from railyard.cluster.runfolder import RunFolder


class Ask(Message, frozen=True, kw_only=True):
    number: int


class Answer(Message, frozen=True, kw_only=True):
    number: int


@pytest.fixture
def transport(tmp_path_factory):
    folder = RunFolder.create(tmp_path_factory.mktemp("t"))
    transport = Transport(folder)
    yield transport
    transport.close()
    folder.remove()


def serve(transport, *, answers):
    """A server that records the numbers of its requests."""
    server, asked = transport.server("oracle"), []

    def handle(request):
        asked.append(request.message.number)
        return Answer(number=request.message.number) if answers else None

    server.on(Ask, handle)
    return server, asked


def wait(transport, until):
    assert transport.reactor.run_until(until, timeout_s=5)


def test_a_server_that_is_late_is_waited_for_and_named(transport):
    link, got = LastingLink(transport, "oracle"), []
    link.request(Ask(number=1), Answer, lambda answer, _: got.append(answer))
    assert not transport.reactor.run_until(lambda: bool(got), timeout_s=1.1)
    assert transport.unreachable() == ("oracle",)
    serve(transport, answers=True)
    wait(transport, lambda: got == [Answer(number=1)])
    assert transport.unreachable() == ()


def test_what_was_asked_over_a_connection_that_broke_is_asked_again_in_its_order(transport):
    renewed, got = [], []
    first, asked = serve(transport, answers=False)
    link = LastingLink(transport, "oracle", lambda: renewed.append(1))
    for number in (1, 2, 3):
        link.insist(
            Ask(number=number),
            Answer,
            lambda answer, _: got.append(answer.number),
            again=Ask(number=-number),
        )
    link.request(Ask(number=4), Answer, lambda answer, _: got.append(type(answer)))
    wait(transport, lambda: len(asked) == 4)
    first.close()
    _, asked = serve(transport, answers=True)
    wait(transport, lambda: len(got) == 4)
    assert (asked, got, renewed) == ([-1, -2, -3], [PeerLost, -1, -2, -3], [1])


def test_what_the_server_says_by_itself_is_heard_over_a_new_connection_too(transport):
    heard, peers = [], []
    first, _ = serve(transport, answers=True)
    link = LastingLink(transport, "oracle")
    link.on(Description, lambda said, _: heard.append(said.name))
    assert link.call(Ask(number=1), Answer).number == 1
    first.close()
    second = transport.server("oracle")
    second.on(Ask, lambda request: peers.append(request.peer))
    wait(transport, lambda: first.closed and link._link.waits_s > 0)
    link.send(Ask(number=2))
    wait(transport, lambda: bool(peers))
    second.push(peers[0], Description(name="x", pid=1, requests=0, refused=0))
    wait(transport, lambda: heard == ["x"])


def test_a_server_that_always_hangs_up_is_not_asked_without_a_pause(transport):
    renewed = []
    link = LastingLink(transport, "oracle", lambda: renewed.append(1))
    for _ in range(3):
        server, asked = serve(transport, answers=True)
        link.insist(Ask(number=1), Answer, lambda *_: None)
        wait(transport, lambda asked=asked: bool(asked))
        server.close()
        wait(transport, lambda: link._link.waits_s > 0)
    assert renewed == [1, 1, 1]
    assert link.pause_s == pytest.approx(0.4)


def test_a_link_that_was_closed_stays_so(transport):
    server, _ = serve(transport, answers=True)
    link = LastingLink(transport, "oracle")
    link.call(Ask(number=1), Answer)
    link.close()
    server.close()
    got = []
    link.request(Ask(number=1), Answer, lambda answer, _: got.append(answer))
    wait(transport, lambda: bool(got))
    assert isinstance(got[0], PeerLost)


def test_what_is_asked_is_asked_again_of_the_next_process(transport):
    first, asked = serve(transport, answers=False)
    link = LastingLink(transport, "oracle")

    def replace():
        first.close()
        serve(transport, answers=True)

    transport.reactor.call_later(0.05, lambda: asked == [1] and replace())
    assert link.ask(Ask(number=1), Answer, timeout_s=5).number == 1


def test_without_a_descriptor_requests_wait_until_there_is_one(transport, monkeypatch):
    renewed, got, make, lacking = [], [], transport.link, [1, 2]

    def link_if_possible(*arguments, **how):
        if lacking:
            lacking.pop()
            raise zmq.ZMQError(errno.EMFILE)
        return make(*arguments, **how)

    server, _ = serve(transport, answers=False)
    link = LastingLink(transport, "oracle", lambda: renewed.append(1))
    link.insist(Ask(number=1), Answer, lambda answer, _: got.append(answer.number))
    monkeypatch.setattr(transport, "link", link_if_possible)
    wait(transport, lambda: link._link.waits_s == 0)
    server.close()
    wait(transport, lambda: len(lacking) == 1)
    link.insist(Ask(number=2), Answer, lambda answer, _: got.append(answer.number))
    _, asked = serve(transport, answers=True)
    wait(transport, lambda: len(got) == 2)
    assert (asked, renewed, lacking) == ([1, 2], [1], [])


def test_a_link_that_cannot_be_watched_leaves_no_socket(transport, monkeypatch):
    sockets = []

    def no_more(socket, *_):
        sockets.append(socket)
        raise zmq.ZMQError(errno.EMFILE)

    monkeypatch.setattr(zmq.Socket, "get_monitor_socket", no_more)
    with pytest.raises(zmq.ZMQError):
        transport.link("oracle")
    assert [socket.closed for socket in sockets] == [True]
