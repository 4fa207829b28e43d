"""A driver of a core that can die at any event, and its journal: a ResourceManager's process.

While it is dead, or stopped, facts are retained by those who report them, as NodeManagers do
(``nodemanager.process``) and clients.  Answers to the dead process are lost.  A core that is
rebuilt from the journal, which is a list here, is what it was.

Never here: what is settled after a restart; see ``simulation``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import FlowId, NodeId, RackId, rack_of
from railyard.cluster.messages import (
    FACTS,
    AttemptFact,
    BeginAttempt,
    CancelFlow,
    FlowFact,
    KillAttempt,
    LaunchAttempt,
    NodeJoined,
    NodeLost,
    NodeRestarted,
    SlotsChanged,
    StartFlow,
)
from railyard.cluster.messaging.wire import Command, Event
from railyard.netemu.messages import LinksObserved
from railyard.oracles.faults.daemons import DaemonDown, DaemonStopped
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.jobs import Attempt, Job
from railyard.resourcemanager.driving.coredriver import Log, follow_timers
from railyard.resourcemanager.driving.orders import reader_of
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import (
    InputMoved,
    InputNotMoved,
    JobCommitFailed,
    JobCommitted,
    TimerFired,
)
from railyard.simulator.clock import EventHeap, VirtualDriver


class Journaled(msgspec.Struct, frozen=True, gc=False):
    """An event, its time and the commands that it led to."""

    at_s: float
    event: Event
    commands: list[Command]


def rebuilt(core: Core, journal: Iterable[Journaled]) -> Core:
    """Let a fresh core handle all events; ``InvariantError`` if it gives other commands."""
    for each in journal:
        commands = core.handle(each.event, each.at_s)
        if commands != each.commands:
            what = f"{each.event} at {each.at_s} s led to {each.commands}, and now to {commands}"
            raise InvariantError(f"replay: {what}")
    return core


def check_same(dead: Core, core: Core) -> None:
    """Raise ``InvariantError`` unless a rebuilt core is as the one that died."""
    for name, before, now in zip(_PARTS, _seen(dead), _seen(core), strict=True):
        if before != now:
            raise InvariantError(f"replay: {name} were {before}, and are {now}")


_PARTS = ("nodes", "jobs", "attempts", "fetches", "coflows", "moves", "random numbers")


def _seen(core: Core) -> tuple[Any, ...]:
    state = core.state
    return (
        [
            (node.id, node.alive, node.slots, node.free, list(node.attempts), list(node.reserved))
            for node in state.nodes.values()
        ],
        [_job(job) for job in (*state.jobs.values(), *state.draining.values())],
        [_attempt(core, each) for each in (*state.attempts.values(), *state.reserved.values())],
        [fetch.start_order for fetch in core.shuffle.fetches.values()],
        core.shuffle.open_coflows,
        core.moves,
        state.random.getstate(),
    )


def _job(job: Job) -> tuple[Any, ...]:
    tasks = [task.state for stage in job.stages.values() for task in stage.tasks]
    return job.id, job.state, job.held, tasks


def _attempt(core: Core, attempt: Attempt) -> tuple[Any, ...]:
    shuffle, reader = core.shuffle.stages.get(attempt.task.stage.id), attempt.reader
    missing = None if shuffle is None or reader is None else shuffle.missing(reader)
    return attempt.id, attempt.state, attempt.node.id, attempt.killing, attempt.progress, missing


#: What nobody sends again: answers to the dead process, its timers, and what is requested anew.
_LOST_WITH_IT = (
    TimerFired,
    LinksObserved,
    JobCommitted,
    JobCommitFailed,
    InputMoved,
    InputNotMoved,
)
_Receive = Callable[[Any], None]
#: Orders for a NodeManager, which are not sent while that has not registered.
_FOR_NODES = (LaunchAttempt, BeginAttempt, KillAttempt)
#: Events about nodes that are up.
_OF_NODES = (NodeLost, NodeRestarted, SlotsChanged)


class RestartableDriver(VirtualDriver):
    """A driver that may be replaced in the middle of an event.

    ``make_core`` makes a core as the first one was.
    """

    def __init__(
        self,
        make_core: Callable[[], Core],
        heap: EventHeap,
        log: Log | None,
    ) -> None:
        super().__init__(make_core(), heap, log)
        self._make_core = make_core
        self.journal: list[Journaled] = []
        self.epoch = 1  #: one more after each death
        self.is_down = False
        self._is_stopped = False
        self.is_late = False  #: whether what it receives now was sent while it was stopped
        self.missing: dict[RackId, None] = {}  #: racks whose NodeManagers are not back yet
        #: {rack whose NodeManager is stopped: the orders that it has yet to receive}
        self.stopped: dict[RackId, list[Command]] = {}
        self._retained: list[Event] = []  #: facts for it, in order
        self._crash: DaemonDown | None = None  #: the next
        #: {class of orders that concern the network: how one is carried out that the network alone
        #: has received, and one that the NodeManager alone has; None: it is for no NodeManager}
        self.halves: dict[type[Command], tuple[_Receive, _Receive | None]] = {}
        #: called with the journal once a core has been rebuilt from it
        self.on_rebuilt: Callable[[Sequence[Journaled]], None] = lambda _: None
        #: called then, to settle the rest with others
        self.on_restarted: Callable[[DaemonDown], None] = lambda _: None

    # How it dies ---------------------------------------------------------------------------------
    def die(self, crash: DaemonDown) -> None:
        """Have it die at an event to come; does nothing if it is to die already, or is dead."""
        if self._crash is None and not self.is_down:
            self._crash = crash

    def stop(self, fault: DaemonStopped) -> None:
        """It is stopped, and goes on later with all that was sent meanwhile."""
        if not self.is_down:
            self.is_down = self._is_stopped = True
            self._heap.after(fault.lasts_s, self._go_on)

    # Events -------------------------------------------------------------------------------------
    def feed(self, event: Event) -> None:
        """Let the core handle an event, now or once there is one again."""
        if self.is_down or ((self.missing or self.stopped) and self._comes_later(event)):
            self._retain(event)
        else:
            super().feed(event)

    def feed_all(self, events: Iterable[Event]) -> None:
        """Feed what others have retained for it."""
        for event in events:
            self.feed(event)

    def feed_of_rejoining(self, events: Iterable[Event]) -> None:
        """The same of a NodeManager that is about to register."""
        for event in events:
            if self.is_down:
                self._retain(event)
            else:
                super().feed(event)

    def take_retained(self, rack: RackId | None) -> list[Event]:
        """What the NodeManager of a rack has retained; None: what others than NodeManagers have."""
        its = [event for event in self._retained if self._rack_of(event) == rack]
        self._retained = [event for event in self._retained if self._rack_of(event) != rack]
        return its

    def carry_out(self, order: Command) -> None:
        """A NodeManager carries out an order that is sent again."""
        super()._carry_out([order])

    # NodeManagers that are stopped ----------------------------------------------------------------
    def stop_manager(self, rack: RackId) -> None:
        """The NodeManager of a rack is stopped."""
        self.stopped[rack] = []

    def manager_goes_on(self, rack: RackId, is_wanted: Callable[[Command], bool]) -> None:
        """It goes on: it receives its orders, and reports what has happened meanwhile.

        ``is_wanted`` says whether one of them is still to be carried out.
        """
        orders = self.stopped.pop(rack)
        # These nodes came back meanwhile: what was ordered before is not for them.
        back = {event.node for event in self._retained if isinstance(event, NodeJoined)}
        orders = [order for order in orders if _node_of(order) not in back]
        super()._carry_out([order for order in orders if is_wanted(order)])
        if not self.is_down and rack not in self.missing:
            self.feed_all(self.take_retained(rack))

    def _comes_later(self, event: Event) -> bool:
        rack = self._rack_of(event)
        if rack is None and isinstance(event, NodeLost):
            for orders in self.stopped.values():
                orders[:] = [order for order in orders if _node_of(order) != event.node]
        return rack in self.missing or rack in self.stopped

    # ---------------------------------------------------------------------------------------------
    def _feed(self, event: Event) -> None:
        if self.is_down:  # it died at an event before
            self._retain(event)
            return
        if isinstance(event, _OF_NODES):
            known = self.core.state.nodes.get(event.node)
            if known is None or not known.alive:
                return  # as ``resourcemanager.process`` does: it will join with its slots
        commands = self._handle(event)
        self.journal.append(Journaled(self.now_s, event, commands))
        crash = self._crash
        if crash is None:
            self._carry_out(commands)
        elif crash.after:
            self._crash = msgspec.structs.replace(crash, after=crash.after - 1)
            self._carry_out(commands)
        else:
            self._crash = None
            self._carry_out_some(commands, crash)
            self._die(crash)

    def _carry_out(self, commands: Sequence[Command]) -> None:
        if not (self.missing or self.stopped):
            super()._carry_out(commands)
            return
        for command in commands:
            if self._is_delivered(command):
                super()._carry_out([command])
            elif type(command) in self.halves:
                self.halves[type(command)][0](command)

    def _carry_out_some(self, commands: Sequence[Command], crash: DaemonDown) -> None:
        """Carry out what went out before it died; the network may have received more or less of it.

        Each connection is in order, but none waits for another.
        """
        many = len(commands)
        others = min(crash.sent, many)
        network = others if crash.to_network is None else min(crash.to_network, many)
        self._carry_out(commands[: min(others, network)])
        for command in commands[others:network]:
            if type(command) in self.halves:
                self.halves[type(command)][0](command)
        for command in commands[network:others]:
            if type(command) not in self.halves:
                self._carry_out([command])
            elif (receive := self.halves[type(command)][1]) is not None and self._is_delivered(
                command
            ):
                receive(command)

    def _is_delivered(self, command: Command) -> bool:
        """Whether it arrives now; one that is stopped will receive it later."""
        if isinstance(command, CancelFlow):
            for orders in self.stopped.values():
                orders[:] = [order for order in orders if not _starts(order, command.flow)]
        node = _node_of(command)
        rack = None if node is None else rack_of(node)
        if rack in self.missing:
            return False
        if rack in self.stopped:
            self.stopped[rack].append(command)
            return False
        return True

    def _die(self, crash: DaemonDown) -> None:
        self.is_down = True
        self.epoch += 1
        self._timers.clear()
        self.missing.clear()
        for orders in self.stopped.values():
            orders.clear()  # of a connection that is broken
        journal, lost = self.journal, list[Event]()
        if crash.lost and not crash.sent and not crash.to_network:
            lost.append(journal.pop().event)
        while len(lost) < crash.lost and journal and not journal[-1].commands:
            lost.append(journal.pop().event)
        again = [each.event for each in journal[max(0, len(journal) - crash.again) :]]
        before, self._retained = self._retained, []
        facts = [event for event in again if isinstance(event, FACTS)]
        for event in (*facts, *reversed(lost), *before):
            self._retain(event)
        self._heap.after(crash.lasts_s, self._restart, crash)

    def _restart(self, crash: DaemonDown) -> None:
        dead = self.core
        self.core = rebuilt(self._make_core(), self.journal)
        if crash.lost == 0:
            check_same(dead, self.core)
        self.on_rebuilt(self.journal)
        timers_s: dict[str, float] = {}
        for each in self.journal:
            follow_timers(timers_s, each.event, each.commands)
        self.is_down = False
        for timer, at_s in timers_s.items():
            self._set_timer(SetTimer(timer=timer, at_s=at_s))
        self.on_restarted(crash)

    def _go_on(self) -> None:
        self.is_down = self._is_stopped = False
        retained, self._retained = self._retained, []
        self.is_late = True
        self.feed_all(retained)
        self.is_late = False

    def _retain(self, event: Event) -> None:
        if self._is_stopped or not isinstance(event, _LOST_WITH_IT):
            self._retained.append(event)

    def _rack_of(self, event: Event) -> RackId | None:
        """The rack whose NodeManager reports an event; None if somebody else does, or any may."""
        if isinstance(event, NodeJoined | NodeRestarted | SlotsChanged):
            return rack_of(event.node)
        if isinstance(event, FlowFact):
            name = reader_of(event.flow)
        elif isinstance(event, AttemptFact):
            name = event.attempt
        else:
            return None
        attempt = self.core.state.attempt(name)
        return None if attempt is None else attempt.node.rack


def _node_of(order: Command) -> NodeId | None:
    """The node whose NodeManager an order is for; None: it is for no NodeManager."""
    if isinstance(order, _FOR_NODES):
        return order.node
    return order.dst if isinstance(order, StartFlow) else None


def _starts(order: Command, flow: FlowId) -> bool:
    return isinstance(order, StartFlow) and order.flow == flow
