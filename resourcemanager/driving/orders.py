"""What a NodeManager lacks, and has too much, by what it says that it has.  Pure.

The core is as its journal says: it has launched some attempts of which the order never left the
dead process, and has ended some.  Orders are sent again only where they are missing, so nothing
that runs is run a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from railyard.cluster.ids import AttemptId, FlowId, rack_of
from railyard.cluster.messages import (
    AttemptKilled,
    BeginAttempt,
    CancelFlow,
    DiscardJob,
    FetchOutput,
    HeldAttempt,
    KillAttempt,
    NodeManagerHolds,
    StartFlow,
)
from railyard.cluster.messaging.wire import Event, Message, Refusal
from railyard.dfs.messages import MoveReplica, ReplicaMoved
from railyard.netemu.messages import OpenFlow
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.files import is_stored
from railyard.resourcemanager.core.jobs import Attempt
from railyard.resourcemanager.core.launches import launch_order
from railyard.resourcemanager.driving.coredriver import CoreDriver
from railyard.resourcemanager.interface.commands import MoveBlock
from railyard.resourcemanager.interface.events import (
    DATA_BLOCKS_MAX,
    DataBlock,
    DataStored,
    InputMoved,
    InputNotMoved,
)

_UNKNOWN = "the ResourceManager, restarted, does not know it"


@dataclass
class Differences:
    """What is to be done so that core and NodeManager agree."""

    orders: list[Message] = field(default_factory=list)  #: for the NodeManager, in this order
    events: list[Event] = field(default_factory=list)  #: for the core
    kept: int = 0  #: attempts that run on

    @property
    def in_words(self) -> str:
        return f"{self.kept} attempts run on, {len(self.orders)} orders are sent again"


def settle_with(core: Core, held: NodeManagerHolds) -> Differences:
    """What is to be done, once all facts that the NodeManager sent again were handled."""
    differences, state = Differences(), core.state
    for job in held.jobs:
        if job not in state.jobs and job not in state.draining:
            differences.orders.append(DiscardJob(job=job))
    of_rack = {
        attempt.id: attempt
        for attempt in (*state.attempts.values(), *state.reserved.values())
        if attempt.node.rack == held.rack
    }
    there = {one.attempt: one for one in held.attempts}
    for name, attempt in of_rack.items():
        _settle(attempt, there.get(name), differences)
    for one in held.attempts:
        if one.attempt not in of_rack and not one.killed:
            order = KillAttempt(attempt=one.attempt, node=one.node, reason=_UNKNOWN)
            differences.orders.append(order)
    flows, fetches = set(held.flows), core.shuffle.fetches
    for flow, fetch in fetches.items():
        if fetch.reader.node.rack == held.rack and flow not in flows:
            differences.orders.append(fetch_order(fetch.start_order))
    for flow in held.flows:
        reader = there.get(reader_of(flow))
        if flow not in fetches and reader is not None:
            differences.orders.append(CancelFlow(flow=flow, dst=reader.node))
    return differences


def fetch_order(order: StartFlow) -> FetchOutput:
    """What the NodeManager of the reading attempt is sent for a flow."""
    return FetchOutput(
        flow=order.flow,
        reader=order.reader,
        src=order.src,
        rack=rack_of(order.src),
        outputs=order.outputs,
        partition=order.partition,
    )


def open_flow(order: StartFlow, given_s: float) -> OpenFlow:
    """What the network is sent for a flow between two nodes, of which the order was given then."""
    opened = msgspec.convert(order, OpenFlow, from_attributes=True)
    return msgspec.structs.replace(opened, given_s=given_s)


def reader_of(flow: FlowId) -> AttemptId:
    """The attempt that a flow of a shuffle is for, after which it is named."""
    return AttemptId(flow.split(":", 1)[0])


def _settle(attempt: Attempt, there: HeldAttempt | None, differences: Differences) -> None:
    name, node = attempt.id, attempt.node.id
    if there is None and attempt.killing:
        differences.events.append(AttemptKilled(attempt=name))  # it was never launched
    elif there is None:
        differences.orders.append(launch_order(attempt))
    else:
        differences.kept += 1
        if attempt.killing and not there.killed:
            order = KillAttempt(attempt=name, node=node, reason=attempt.killing)
            differences.orders.append(order)
        elif attempt.state != "reserved" and not there.has_slot:
            differences.orders.append(BeginAttempt(attempt=name, node=node))


# Data that jobs read -----------------------------------------------------------------------------
def move_request(order: MoveBlock) -> MoveReplica:
    """The NameNode's message for a command of the core."""
    return MoveReplica(path=order.path, number=order.block, target=order.node, source=order.source)


def move_ended(order: MoveBlock, answer: ReplicaMoved | Refusal) -> InputMoved | InputNotMoved:
    """The core's event for the NameNode's answer."""
    if isinstance(answer, ReplicaMoved):
        return InputMoved(path=order.path, block=order.block, nodes=answer.nodes)
    return InputNotMoved(path=order.path, block=order.block, reason=answer.reason)


def report_data(
    driver: CoreDriver, path: str, blocks: Sequence[DataBlock], jobs: Sequence[str] = ()
) -> None:
    """Feed ``DataStored`` for a file, unless nobody uses data or all of it is known.

    ``jobs``: the names of those to come that will read it.
    """
    state = driver.core.state
    if not state.uses_data or is_stored(state, path, blocks):
        return
    for first in range(0, len(blocks), DATA_BLOCKS_MAX):
        last = first + DATA_BLOCKS_MAX
        readers = tuple(jobs) if last >= len(blocks) else ()
        part = tuple(blocks[first:last])
        driver.feed(DataStored(path=path, blocks=part, first=first, jobs=readers))
