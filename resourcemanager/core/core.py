"""The ResourceManager's core: jobs, tasks and slots as a deterministic state machine.

``handle(event, now_s)`` is the only thing that changes a core; it returns the commands that follow
from the event.  Whoever else holds a core reads.  The same object runs under the wall clock and
under a virtual one.

Never here: sockets, files, clocks, unseeded dice, or the name of any scheduler.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from railyard.cluster.errors import InvariantError, PeerError
from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messages import (
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptReady,
    AttemptStarted,
    AttemptSucceeded,
    DrainStarted,
    FlowFailed,
    FlowFinished,
    NodeActivated,
    NodeJoined,
    NodeLost,
    NodeRestarted,
    SlotsChanged,
)
from railyard.cluster.messaging.wire import Command, Event, Message, to_map
from railyard.cluster.topology import Topology
from railyard.netemu.messages import LinksObserved
from railyard.resourcemanager.core.attempts import ROOM, Attempts
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.files import Moves, data_stored, place_data
from railyard.resourcemanager.core.joblife import OUTAGE, JobLife
from railyard.resourcemanager.core.jobs import Node
from railyard.resourcemanager.core.launches import Launches
from railyard.resourcemanager.core.offers import Offers
from railyard.resourcemanager.core.policies import Observer
from railyard.resourcemanager.core.proposals import Proposals
from railyard.resourcemanager.core.records import JobRecord
from railyard.resourcemanager.core.shuffling.fetches import CancelFetch, FetchesEnded, StartFetches
from railyard.resourcemanager.core.shuffling.shuffle import Shuffle
from railyard.resourcemanager.interface.commands import MoveBlock
from railyard.resourcemanager.interface.events import (
    DataAnnounced,
    DataStored,
    InputMoved,
    InputNotMoved,
    JobCommitFailed,
    JobCommitted,
    JobKilled,
    JobsPredicted,
    JobSubmitted,
    TimerFired,
)
from railyard.resourcemanager.interface.recipe import Option, Recipe

#: Events kept, about how many commands with them at most, and lines shown of them.
_EVENTS_KEPT, _COMMANDS_KEPT, _SHOWN = 1000, 2000, 8
#: Commands are counted only after an event that has led to more than so many, as few do.
_FEW_COMMANDS = 30


class Core:
    """The state machine.  Same topology, recipe, options, seed and events: same commands.

    ``records_kept``: how many ended jobs' records are kept; None = all.
    ``compile_loops``: whether loops over fetches are compiled, for who has very many of them.
    """

    def __init__(
        self,
        topology: Topology,
        recipe: Recipe,
        options: Mapping[str, Option] | None = None,
        seed: int = 1,
        records_kept: int | None = None,
        *,
        compile_loops: bool = False,
    ) -> None:
        self.state = ClusterState(topology, recipe, options or {}, seed)  #: to be read only
        self.history = History()  #: to be read only
        self.shuffle = Shuffle(self.state, compile_loops=compile_loops)  #: to be read only
        self._jobs = JobLife(self.state, self.shuffle, records_kept)
        launches = Launches(self.state, self.shuffle)
        self._attempts = Attempts(self.state, self.shuffle, self._jobs, launches)
        moves = Moves(self.state)
        self._proposals = Proposals(self.state, launches, self._attempts, moves)
        self._offers = Offers(self.state, self.shuffle, launches, self._attempts, self._proposals)
        self.steady_until_s = self._offers.steady_until_s
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            NodeJoined: self._node_joined,
            NodeLost: self._node_lost,
            NodeRestarted: self._node_restarted,
            SlotsChanged: self._slots_changed,
            DrainStarted: self._drain_started,
            NodeActivated: self._node_activated,
            LinksObserved: self._links_observed,
            JobsPredicted: lambda event: self.state.policies.notify("jobs_predicted", event.jobs),
            DataAnnounced: lambda event: place_data(self.state, event),
            DataStored: lambda event: data_stored(self.state, event),
            InputMoved: moves.moved,
            InputNotMoved: moves.not_moved,
            JobSubmitted: self._jobs.submitted,
            JobKilled: self._jobs.killed,
            JobCommitted: self._jobs.committed,
            JobCommitFailed: self._jobs.commit_failed,
            TimerFired: self._timer_fired,
            AttemptStarted: self._attempts.started,
            AttemptProgressed: self._attempts.progressed,
            AttemptReady: self._attempts.ready,
            AttemptSucceeded: self._attempts.succeeded,
            AttemptFailed: self._attempts.failed,
            AttemptKilled: self._attempts.killed,
            FlowFinished: self.shuffle.finished,
            FetchesEnded: self.shuffle.ended,
            FlowFailed: self._attempts.fetch_failed,
        }

    def handle(self, event: Event, now_s: float) -> list[Command]:
        """Handle an event; returns the commands that follow from it, in order.

        Raises ``PeerError`` (or ``UsageError``, for a job that the scheduler can't take) for an
        event that can't be true, and then nothing has changed; ``InvalidDecision`` when a policy
        proposes what can't be, and then this core is of no more use.
        """
        self.shuffle.by_name = True
        return self._handle(event, now_s)

    def handle_together(self, event: Event, now_s: float) -> list[Command]:
        """The same, with orders about many fetches in one (``shuffling/fetches.py``)."""
        self.shuffle.by_name = False
        return self._handle(event, now_s)

    def _handle(self, event: Event, now_s: float) -> list[Command]:
        state = self.state
        if now_s < state.now_s:
            raise InvariantError(f"{event.tag()} at {now_s} s comes after {state.now_s} s")
        handler = self._handlers.get(type(event))
        if handler is None:
            raise PeerError(f"the core does not handle {event.tag()}")
        commands: list[Command] = []
        is_only_noted = type(event) is AttemptProgressed and now_s < self.steady_until_s()
        state.now_s, state.commands, state.emit = now_s, commands, commands.append
        self.history.add((now_s, event, commands))
        try:
            handler(event)
            if is_only_noted:
                return commands
            if state.empty_since_s is not None:
                self._jobs.review_outage()
            if state.freed and self._proposals.are_made:
                self._proposals.keep_promises()
            self._offers.make()
        except InvariantError as error:
            error.add_events(self.history.about(error.about))
            raise
        if len(commands) > _FEW_COMMANDS:
            self.history.shorten()
        return commands

    # Reading -------------------------------------------------------------------------------------
    @property
    def records(self) -> Mapping[JobId, JobRecord]:
        """Each job's record, in the order of submission."""
        self.shuffle.count_all()
        return self.state.records

    @property
    def moves(self) -> list[MoveBlock]:
        """The moves of blocks under way."""
        return [
            MoveBlock(path=path, block=number, node=block.moving_to, source=block.moving_from)
            for path, blocks in self.state.data.items()
            for number, block in enumerate(blocks)
            if block.moving_to is not None
        ]

    def observe(self, observer: Observer) -> None:
        """Have ``observer`` called with policies' answers and proposals from now on."""
        self.state.observers.append(observer)

    # Nodes ---------------------------------------------------------------------------------------
    def _node_joined(self, event: NodeJoined) -> None:
        known = self.state.nodes.get(event.node)
        if known is not None and known.alive:
            self._node_lost(NodeLost(node=event.node, reason="it started anew"))
        node = self.state.add_node(event.node, event.rack, event.slots)
        self.state.policies.notify("node_joined", node)

    def _node_lost(self, event: NodeLost) -> None:
        node = self.state.nodes.get(event.node)
        if node is None:
            raise PeerError(f"there is no node {event.node}")
        if node.alive:
            self.state.drop_node(node, event.reason)
            self._attempts.node_lost(node)
            self.state.policies.notify("node_lost", node)

    def _node_restarted(self, event: NodeRestarted) -> None:
        self._attempts.node_restarted(self._living(event.node), frozenset(event.outputs))

    def _slots_changed(self, event: SlotsChanged) -> None:
        node = self._living(event.node)
        if node.draining:
            raise PeerError(f"{node.id} is drained: it has no slots until it is activated")
        self._resize(node, event.slots)

    def _resize(self, node: Node, slots: int) -> None:
        before = node.slots
        if slots != before:
            self.state.resize_node(node, slots)
            self.state.policies.notify("slots_changed", node, before)

    def _drain_started(self, event: DrainStarted) -> None:
        node = self._living(event.node)
        node.draining = True
        self._resize(node, 0)
        self._attempts.drain(node, kill=event.kill)

    def _node_activated(self, event: NodeActivated) -> None:
        node = self.state.nodes.get(event.node)
        if node is None or not node.draining:
            raise PeerError(f"{event.node} is not drained")
        node.draining = False
        if node.alive:
            self._resize(node, event.slots)

    def _links_observed(self, event: LinksObserved) -> None:
        state = self.state
        for name, link in event.links.items():
            if name not in state.links:
                raise PeerError(f"nobody observes {name}, or it is no link between racks")
            if link.free_bytes_per_s > link.capacity_bytes_per_s:
                raise PeerError(f"{name} can't have more free than it can carry: {link}")
        state.links |= event.links
        state.policies.notify("links_observed", event.links)

    def _timer_fired(self, event: TimerFired) -> None:
        if ROOM in event.timer:
            self._attempts.room_again(event.timer)
        elif event.timer == OUTAGE:
            self._jobs.outage_timer_fired()
        else:
            self._offers.timer_fired(event)

    def _living(self, name: NodeId) -> Node:
        node = self.state.nodes.get(name)
        if node is None or not node.alive:
            raise PeerError(f"there is no living node {name}")
        return node


class History:
    """The last events, with the commands that they led to, for the text of errors."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, Event, Sequence[Command]]] = deque(maxlen=_EVENTS_KEPT)
        #: remember an event, its time and its commands, which may still grow
        self.add = self._entries.append

    def shorten(self) -> None:
        """Forget old events, since the last one has led to more than few commands."""
        entries = self._entries
        many = sum([len(commands) for _, _, commands in entries])
        while many > _COMMANDS_KEPT and len(entries) > 1:
            many -= len(entries.popleft()[2])

    def about(self, names: Iterable[str]) -> list[str]:
        """The last events that touched any of these nodes, jobs or tasks, a line each, in order.

        All, if nothing is named.
        """
        is_about = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names)).search
        lines: list[str] = []
        for now_s, event, commands in reversed(self._entries):
            led_to = [text for text in map(_in_words, commands) if is_about(text)]
            if led_to or is_about(_in_words(event)):
                arrow = f"  ->  {'; '.join(led_to[:4])}" if led_to else ""
                lines.append(f"    {now_s:.3f}  {_in_words(event)}{arrow}")
                if len(lines) == _SHOWN:
                    break
        return lines[::-1]


def _in_words(message: Message) -> str:
    """Say "AttemptSucceeded attempt=j1.m5.0 node=r0n1": the short fields only."""
    if isinstance(message, FetchesEnded | StartFetches | CancelFetch):
        return type(message).__name__
    fields = to_map(message)
    short = (f"{k}={v}" for k, v in fields.items() if k != "type" and isinstance(v, str | float))
    return " ".join([type(message).__name__, *short])
