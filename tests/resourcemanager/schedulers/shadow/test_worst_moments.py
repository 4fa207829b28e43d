"""Duplicates of each kind, and whatever can be lost is lost at every event: the job ends well.

One duplicate replaces its original at once, one ends before T, two end after it, and are chosen or
not.  The core's laws are checked after every event: of each task one output counts, and none that
is kept is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from railyard.cluster.ids import JobId
from railyard.cluster.messages.execution import AttemptFailed, AttemptSucceeded
from railyard.cluster.messaging.wire import Event
from railyard.resourcemanager.core.state.figures import figures_of
from tests.harness import TinyCluster, tiny_cluster

GB = 10**9
NODES = [f"r{rack}n{at}" for rack in range(3) for at in range(4)]
Hit = Callable[[TinyCluster], None]


def started(partition_bytes: int, hit: Hit | None = None, after: int = 0) -> TinyCluster:
    """A job with all kinds of duplicates; ``hit`` is called after so many events."""
    options = {"shadow.duplicates_max": 1.0, "speculation.on": False}
    c = tiny_cluster(racks=3, nodes=4, slots=2, scheduler="shadow", options=options, kill_s=0.5)
    factors = iter([1.0] * 10 + [1.0, 0.5, 2.0, 2.0])  # ten originals, then the duplicates
    c.stretch = lambda: next(factors, 1.0)
    blocks = [["r0n0", "r1n1"], *(["r0n0"], ["r0n1"], ["r0n2"], ["r0n3"]), ["r0n1"], ["r0n2"]]
    c.store("in", blocks=[*blocks, ["r0n3"], ["r1n0"], ["r2n0"]], block_bytes=10 * GB)
    for node in NODES[4:]:  # all of the first eight maps start in the first rack
        c.set_slots(node, 0)
    c.at(
        0.5, lambda: [c.set_slots(node, 2) for node in NODES[4:] if c.core.state.nodes[node].alive]
    )
    plain, seen = c.feed, 0

    def feed(event: Event) -> None:
        nonlocal seen
        plain(event)
        seen += 1
        if hit is not None and seen == after:
            hit(c)

    c.feed = feed
    c.submit("j0", input="in", reduces=3, map_s=10, reduce_s=3, partition_bytes=partition_bytes)
    return c


def losing(*nodes: str) -> Hit:
    def hit(c: TinyCluster) -> None:
        for node in nodes:
            c.lose(node)
        c.at(c.now_s + 4.0, lambda: [c.join(node) for node in nodes])

    return hit


def failing(which: int) -> Hit:
    """Of the attempts that compute."""

    def hit(c: TinyCluster) -> None:
        attempts = sorted(c._workers)
        if attempts:
            attempt = attempts[which % len(attempts)]
            del c._workers[attempt]
            c.feed(AttemptFailed(attempt=attempt, reason="boom"))

    return hit


def hits(events: int) -> Iterator[tuple[int, Hit]]:
    """At each event a rack, two or three nodes and an attempt, in turn: all would take 20 s."""
    for after in range(1, events + 1):
        rack = after % 3
        yield after, losing(*NODES[4 * rack : 4 * rack + 4])
        for at in range(after % 5, len(NODES), 5):
            yield after, losing(NODES[at])
        yield after, failing(after)


@pytest.mark.parametrize(("partition_bytes", "chosen"), [(60 * GB, 4), (10, 2)])
def test_at_every_event_nodes_racks_and_attempts_may_be_lost(partition_bytes: int, chosen: int):
    c = started(partition_bytes)
    assert c.run().ended == {"j0": ""}
    figures = figures_of(c.core.state.policies)[0]["shadow"]
    assert (figures["duplicates"], figures["duplicates_chosen"]) == (4, chosen)
    assert (figures["replaced"], figures["taken_early"]) == (1, 1)
    for after, hit in hits(len(c.events)):
        lossy = started(partition_bytes, hit, after)
        run = lossy.run()
        assert run.ended == {"j0": ""}, after
        record = lossy.core.records[JobId("j0")]
        assert record.shuffle_bytes == 10 * 3 * partition_bytes, after
        outputs = [each for _, each in lossy.events if isinstance(each, AttemptSucceeded)]
        assert len({each.attempt for each in outputs}) == len(outputs), after
