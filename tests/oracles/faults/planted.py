"""Bugs of many kinds, each planted in this process alone, to count how many schedules find it.

Never here: anything that the product imports.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import msgspec

from railyard.cluster.messages import AttemptSucceeded, FetchOutput, LaunchAttempt
from railyard.cluster.messaging.wire import Message
from railyard.dfs.namenode.blockmap import BlockMap
from railyard.netemu.fabric.fabric import Fabric, Order, StartFlows
from railyard.netemu.messages import SetCapacity
from railyard.oracles.faults import simulation as settling
from railyard.oracles.faults.driver import RestartableDriver
from railyard.oracles.faults.memoryjournal import MemoryJournal
from railyard.oracles.faults.workers import FaultyWorkers
from railyard.resourcemanager.core.attempts import Attempts
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.interface.events import JobCommitFailed
from railyard.simulator.workers import NodeManagers

Patch = tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]


def _lost_event(retain: Callable[..., Any]) -> Callable[..., Any]:
    """What succeeded while the ResourceManager was down is not reported to its successor."""

    def retained(self: RestartableDriver, event: Any) -> None:
        if not isinstance(event, AttemptSucceeded):
            retain(self, event)

    return retained


def _double_grant(handle: Callable[..., Any]) -> Callable[..., Any]:
    """A network that was restarted grants what a flow had sent before once more."""

    def handled(self: Fabric, order: Order | None, now_s: float) -> Any:
        if isinstance(order, StartFlows):
            order = StartFlows(order.flows)
        return handle(self, order, now_s)

    return handled


def _forgotten_replica(joined: Callable[..., Any]) -> Callable[..., Any]:
    """A DataNode that registers with several blocks is not recorded with the last one."""
    return lambda self, node, held: joined(self, node, tuple(held)[: max(1, len(held) - 1)])


def _slot_kept(release: Callable[..., Any]) -> Callable[..., Any]:
    """The slot of an attempt that was killed is not free again."""

    def released(self: ClusterState, attempt: Any) -> None:
        free = attempt.node.free
        release(self, attempt)
        if attempt.killing and attempt.node.free > free:
            attempt.node.free -= 1
            self.free -= 1

    return released


def _output_used_twice(_: Callable[..., Any]) -> Callable[..., Any]:
    """A reader takes the output of a map that ran again once more."""
    return lambda _, command: (len(command.outputs), command.size_bytes)


def _order_repeated(settle: Callable[..., Any]) -> Callable[..., Any]:
    """After a restart, whatever runs is launched again."""

    def settled(core: Any, held: Any) -> Any:
        return settle(core, msgspec.structs.replace(held, attempts=held.attempts[1:]))

    return settled


def _order_dropped(settle: Callable[..., Any]) -> Callable[..., Any]:
    """After a restart, what was never launched is not launched."""
    return _without(settle, LaunchAttempt)


def _fetch_not_ordered(settle: Callable[..., Any]) -> Callable[..., Any]:
    """After a restart, a fetch that the network alone has received stays so."""
    return _without(settle, FetchOutput)


def _flow_not_opened(_: Callable[..., Any]) -> Callable[..., Any]:
    """After a restart, a fetch that the reader's NodeManager alone has received stays so."""
    return _nothing


def _without(settle: Callable[..., Any], kind: type[Message]) -> Callable[..., Any]:
    """Leave out orders of a class that a NodeManager lacks."""

    def settled(core: Any, held: Any) -> Any:
        found = settle(core, held)
        found.orders = [each for each in found.orders if not isinstance(each, kind)]
        return found

    return settled


def _commit_not_looked_up(_: Callable[..., Any]) -> Callable[..., Any]:
    """A commit that is refused counts as failed, even if it was done before."""
    return lambda job, refused, _: JobCommitFailed(job=job, reason=refused.reason)


def _timers_forgotten(_: Callable[..., Any]) -> Callable[..., Any]:
    """Timers are not set again after a restart."""
    return _nothing


def _link_too_wide(handle: Callable[..., Any]) -> Callable[..., Any]:
    """A link that lost capacity carries more than is left."""

    def handled(self: Fabric, order: Order | None, now_s: float) -> Any:
        if isinstance(order, SetCapacity):
            order = SetCapacity(link=order.link, bytes_per_s=2 * order.bytes_per_s + 1e6)
        return handle(self, order, now_s)

    return handled


def _journal_entry_lost(commit: Callable[..., Any]) -> Callable[..., Any]:
    """The NameNode's journal lacks the last change of each entry with several."""

    def committed(self: MemoryJournal, changes: Any, notes: Any = ()) -> None:
        every = list(changes)
        commit(self, every[: max(1, len(every) - 1)], notes)

    return committed


def _output_of_lost_node(_: Callable[..., Any]) -> Callable[..., Any]:
    """Map output of a node that was lost counts as if it were there."""
    return _nothing


def _other_dice(rebuilt: Callable[..., Any]) -> Callable[..., Any]:
    """A core that is rebuilt has other random numbers than the one that died."""

    def with_other_dice(core: Any, journal: Any) -> Any:
        core.state.random.seed(0)
        return rebuilt(core, journal)

    return with_other_dice


def _nothing(*_: Any) -> None:
    """Do nothing."""


#: {bug: what is patched, its attribute, how}
PLANTED: dict[str, Patch] = {
    "a lost event": (RestartableDriver, "_retain", _lost_event),
    "a double grant": (Fabric, "handle", _double_grant),
    "a forgotten replica": (BlockMap, "node_joined", _forgotten_replica),
    "a slot that is never free again": (ClusterState, "release", _slot_kept),
    "an output used twice": (NodeManagers, "news_of", _output_used_twice),
    "an order given twice": (settling, "settle_with", _order_repeated),
    "an order never given": (settling, "settle_with", _order_dropped),
    "a fetch that the network never opens": (FaultyWorkers, "open_all", _flow_not_opened),
    "a fetch that its reader is never ordered": (settling, "settle_with", _fetch_not_ordered),
    "a commit called failed": (
        "railyard.simulator.submissions",
        "commit_refused",
        _commit_not_looked_up,
    ),
    "timers that are forgotten": (
        "railyard.oracles.faults.driver",
        "follow_timers",
        _timers_forgotten,
    ),
    "a link that carries too much": (Fabric, "handle", _link_too_wide),
    "a journal that lacks an entry": (MemoryJournal, "commit", _journal_entry_lost),
    "output of a lost node": (Attempts, "_lose_outputs_on", _output_of_lost_node),
    "other random numbers": ("railyard.oracles.faults.driver", "rebuilt", _other_dice),
}


@contextmanager
def planted(bug: str) -> Iterator[None]:
    """Have this process behave wrongly in one way."""
    where, name, patch = PLANTED[bug]
    if isinstance(where, str):
        where = importlib.import_module(where)
    with mock.patch.object(where, name, patch(getattr(where, name))):
        yield
