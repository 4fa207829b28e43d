"""The network as a fluid: between events, every flow sends at a constant rate.

``Fabric`` is a state machine without a clock: the time is an argument.  The emulator drives it in
real time, the simulator from event to event, and it does the same for both.  It does no I/O and
knows nothing of real bytes.

    fabric.advance(now_s) -> flows that finished, each with its exact time
    fabric.start(...), fabric.grow(...), fabric.cancel(...), fabric.set_capacity(...)  (at now_s)
    fabric.next_event_s() -> when something will happen by itself: a flow finishes, or the flow
                             scheduler wants to decide again

However much happens at one instant, rates are set once: ``advance`` ends the flows that are due,
then the driver makes its calls, and rates are set when they are next read or time goes on.
Times that differ by rounding only are one instant (``instant_s``).

Not here: what can be asked of it (``state``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, cast

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import CoflowId, FlowId
from railyard.netemu.fabric.state import FabricState
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.flows import Coflow, Finished, FlowSpec
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.network import check_capacity
from railyard.netemu.model.openflows import Flow

if TYPE_CHECKING:  # importing it loads compiled loops
    from railyard.netemu.fabric.flowtable import FlowTable

#: So often, rates may be set at one instant without the end of a flow.
_IDLE_MAX = 100_000


class Fabric(FabricState):
    """Flows over the links of a topology, at the rates that a flow scheduler sets."""

    # What happens to it --------------------------------------------------------------------------
    def start(self, spec: FlowSpec) -> None:
        """Open a flow now.

        Raises ``ValueError`` if its name is in use, or if its nodes or its coflow do not exist.
        """
        self.start_all((spec,))

    def start_all(self, specs: Iterable[FlowSpec]) -> None:
        """Open flows now, in this order; cheaper than calling ``start`` for each.

        Raises ``ValueError`` as ``start`` does; the flows before the wrong one stay open.
        """
        opened: list[Flow] = []
        try:
            self._open(specs, opened)
        finally:
            self._recent.note_started(self._context.now_s, opened)
            sending = [flow for flow in opened if flow.size_bytes and flow.route.path]
            if len(sending) < len(opened):
                for flow in opened:
                    if not (flow.size_bytes and flow.route.path):
                        self._send(flow)
            self._ways.send_all(sending)

    def _open(self, specs: Iterable[FlowSpec], opened: list[Flow]) -> None:
        """Open flows, which do not send yet, and add them to ``opened``."""
        flows, find_route, now_s = self._flows, self.network.route, self._context.now_s
        known, coflow, group = None, None, None  #: the last flow's coflow, and group
        for number, spec in enumerate(specs, self._sequence):
            name, size_bytes, weight = spec.flow, spec.size_bytes, spec.weight
            if spec.coflow is None or spec.coflow != known:
                known = spec.coflow
                coflow = None if known is None else self._registered(known)
                group = None
            if name in flows:
                raise ValueError(f'flow "{name}" is open already')
            if size_bytes < 0 or not 0 < weight < inf:
                raise ValueError(f'flow "{name}": need a size >= 0 and a weight > 0')
            route = find_route(spec.src, spec.dst)
            if group is None:
                group = self._ways.group_of(spec)
            flow = Flow(spec, route, number, size_bytes, spec.more, group, coflow, weight)
            self._sequence = number + 1
            flows[name] = flow
            opened.append(flow)
            if coflow is not None:
                coflow.flows[name] = None
                if coflow.started_s is None:
                    coflow.started_s = now_s

    def start_rows(self, src: Numbers, dst: Numbers, size_bytes: Numbers, names: Numbers) -> None:
        """Open flows of weight 1 between nodes, by their places in the topology, in this order.

        Each has bytes to send, and a number that no other has for a name.
        """
        if self._table is None:
            raise ValueError("flows need names here: it has no table")
        numbers = np.arange(self._sequence, self._sequence + len(src))
        self._sequence += len(src)
        self._ways.send_rows(self._table, np.array([names, numbers, src, dst, size_bytes]))

    def name_rows(self, specs: Mapping[int, FlowSpec]) -> list[int]:
        """Give names to open flows that have numbers, and coflows; returns which are not open.

        {number: the flow as it would have been started}
        """
        if self._table is None:
            return list(specs)
        flows = [self._named(spec, self._table) for spec in specs.values()]
        names = list(specs)
        missing = self._table.name(names, flows)
        for flow in flows:
            if flow.flow_class is None:
                continue
            self._flows[flow.spec.flow] = flow
            if flow.coflow is not None:
                flow.coflow.flows[flow.spec.flow] = None
        return [names[place] for place in missing]

    def _named(self, spec: FlowSpec, table: FlowTable) -> Flow:
        coflow = None if spec.coflow is None else self._registered(spec.coflow)
        route = self.network.route(spec.src, spec.dst)
        return Flow(spec, route, -1, spec.size_bytes, False, table, coflow, spec.weight)

    def grow(self, flow: FlowId, by_bytes: int, more: bool) -> None:
        """Add bytes to an open flow that was started with ``more``.

        It finishes once it has sent all its bytes and ``more`` is false.  Raises ``ValueError``
        if there is no such flow, if it is complete, or if ``by_bytes`` is below 0.
        """
        found = self._flows.get(flow)
        if found is None:
            raise ValueError(f'flow "{flow}" is not open')
        if not found.more:
            raise ValueError(f'flow "{flow}" is complete: it was not started with "more"')
        if by_bytes < 0:
            raise ValueError(f'flow "{flow}" grows by {by_bytes} bytes: need 0 or more')
        self._ways.stop(found)
        found.size_bytes += by_bytes
        self._recent.add((self._context.now_s, "grow", flow, by_bytes))
        found.more = more
        self._send(found)

    def cancel(self, flow: FlowId) -> bool:
        """Close a flow before its end; False if none of that name is open."""
        found = self._flows.get(flow)
        if found is None:
            return False
        self._recent.add((self._context.now_s, "cancel", flow, found.spec.coflow))
        self._instant.pop(found, None)
        self._ways.stop(found)
        self._ways.rest(found)
        self._ways.carried.book(found)
        del self._flows[flow]
        if found.coflow is None:
            self._ways.forget(found.group.key)
        else:
            del found.coflow.flows[flow]
        return True

    def register_coflow(self, coflow: CoflowId) -> None:
        """Accept flows of this coflow; ``ValueError`` if it is registered."""
        if coflow in self._coflows:
            raise ValueError(f'coflow "{coflow}" is registered already')
        self._coflows[coflow] = Coflow()

    def finish_coflow(self, coflow: CoflowId) -> list[FlowId]:
        """Forget a coflow, cancelling (and returning) flows that are still open.

        Raises ``ValueError`` if it is not registered.
        """
        if coflow not in self._coflows:
            raise ValueError(f'coflow "{coflow}" is not registered')
        still_open = list(self._coflows[coflow].flows)
        for flow in still_open:
            self.cancel(flow)
        del self._coflows[coflow]
        self._ways.forget(coflow)
        return still_open

    def set_capacity(self, link: str, bytes_per_s: float) -> None:
        """Give a link another capacity from now on; 0 stops it.  ``ValueError`` if unknown."""
        if link not in self.network.number:
            raise ValueError(f'"{link}" is no link of this topology')
        check_capacity(link, bytes_per_s)
        self._recent.add((self._context.now_s, "capacity of", link, bytes_per_s))
        self._rates.set_capacity(self.network.number[link], bytes_per_s)
        self.cross_rack_bytes_per_s = self.network.cross_rack_bytes_per_s(self._rates.capacities)
        if self._ways.plane is not None:
            self._ways.plane.limits_changed()

    def advance(self, now_s: float) -> list[Finished]:
        """Let time pass until ``now_s``; returns what finished on the way, in order.

        It is ``advance_all`` where no flow has a number for a name.
        """
        return cast("list[Finished]", self.advance_all(now_s))

    def advance_all(self, now_s: float) -> list[Finished | Numbers]:
        """Let time pass until ``now_s``; returns what finished on the way, in order.

        Of flows that have numbers for names, there are arrays of these.

        Flows that finish at ``now_s`` are among them, but new rates are set later, together with
        what else happens then.  Raises ``InvariantError`` if ``now_s`` is in the past.
        """
        context = self._context
        if now_s < context.now_s:
            raise InvariantError(f"the network's clock is at {context.now_s}, beyond {now_s}")
        finished: list[Finished | Numbers] = []
        slack_s = instant_s(now_s)
        if not (self._rates.stale or self._instant or self._rates.next_s <= now_s + slack_s):
            context.now_s = now_s  # nothing happens, as mostly
            return finished
        decided = now_s == context.now_s  #: or will be, as no time passes until then
        while (due_s := self._happens_s(now_s, slack_s, decided)) <= now_s:
            is_later, context.now_s = due_s > context.now_s, due_s
            decided = now_s - due_s <= slack_s
            ended = self._take_ended(now_s + slack_s if decided else due_s)
            self._goes_on(is_later or bool(ended))
            if self._table is not None and self._table.ended:
                finished += self._finish_rows(ended, self._table, due_s)
            else:
                finished += self._finish(ended, repeat(due_s))
            self._rates.stale = True
        context.now_s = now_s
        return finished

    def go_ahead(self, before_s: float) -> list[Finished] | None:
        """Process several events before ``before_s`` at once, if the scheduler can compute them.

        Call it when ``next_event_s`` is before then.  Returns what finished on the way, in order;
        the time is that of the last event.  None if it can't be done: call ``advance``.
        """
        if self._instant:
            return None
        self._refresh()
        if self._ways.plane is not None:
            return self._go_ahead_on_circuits(before_s)
        try:
            ended = self._rates.go_ahead(before_s, self.together_s)
        except InvariantError as error:
            self._recent.add_to(error)
            raise
        if ended is None:
            return None
        return self._finish([flow for _, _, flow in ended], [at_s for at_s, _, _ in ended])

    # Inside --------------------------------------------------------------------------------------
    def _go_ahead_on_circuits(self, before_s: float) -> list[Finished] | None:
        """Go ahead where all flows are on circuits; None if some flows go by packets."""
        plane = self._ways.runs()
        if plane is None:
            return None
        events, ended, ends_s = plane.run(before_s, self.together_s)
        self._rates.went_ahead(events, plane.decide_again_s())
        if not events:  # more end at once than there is room for
            return None
        if any(map(attrgetter("more"), ended)):
            done = [number for number, flow in enumerate(ended) if not flow.more]
            ended, ends_s = [ended[n] for n in done], [ends_s[n] for n in done]
        return self._finish(ended, ends_s)

    def _registered(self, name: CoflowId) -> Coflow:
        coflow = self._coflows.get(name)
        if coflow is None:
            raise ValueError(f'coflow "{name}" is not registered')
        return coflow

    def _happens_s(self, until_s: float, slack_s: float, later: bool) -> float:
        """When the next event is, if by ``until_s`` plus ``slack_s``; else a later time.

        ``later``: rates that are out of date are set later, not now.
        """
        rates, decide_s = self._rates, inf
        if not (later and rates.stale):
            self._refresh()
            decide_s = rates.decide_s
        now_s = self._context.now_s
        if self._instant:
            return now_s
        first_s = rates.first_end_s()
        if first_s <= until_s + slack_s:
            first_s = min(first_s, until_s)
        return max(min(first_s, decide_s), now_s)

    def _goes_on(self, is_so: bool) -> None:
        """Count how often rates are set while no time passes and no flow ends."""
        self._idle = 0 if is_so else self._idle + 1
        if self._idle > _IDLE_MAX:
            name, at_s = self._rates.scheduler.name, self._context.now_s
            error = InvariantError(f"{name} decides again and again at {at_s} s, and no flow ends")
            self._recent.add_to(error)
            raise error

    def _send(self, flow: Flow) -> None:
        """Let a flow that has no row send what it has."""
        remaining = flow.size_bytes - flow.sent_bytes
        if remaining > 0 and flow.route.path:
            self._ways.send(flow, remaining)
            return
        self._ways.rest(flow)
        if not flow.more:
            self._instant[flow] = None
        elif remaining > 0:
            flow.sent_bytes = float(flow.size_bytes)

    def _take_ended(self, by_s: float) -> list[Flow]:
        """The flows that finish now, or by then; those that wait for more bytes only stop."""
        if self._instant:  # alone: those that are nearly due have their own time
            instant = list(self._instant)
            self._instant.clear()
            return instant
        ended: list[Flow] = []
        now_s, rates = self._context.now_s, self._rates
        by_s = max(by_s, now_s + max(instant_s(now_s), self.together_s))
        while rates.first_end_s() <= by_s:
            due = rates.take_first(by_s)
            if self._ways.plane is not None:
                for flow in due:
                    self._ways.plane.stop(flow)
            ended += [flow for flow in due if not flow.more]
        return sorted(ended, key=attrgetter("sequence"))

    def _finish(self, ended: list[Flow], ends_s: Iterable[float]) -> list[Finished]:
        """Count and close flows that have sent all, each at its time."""
        flows, finished = self._flows, list[Finished]()
        for flow, end_s in zip(ended, ends_s, strict=False):
            spec, coflow = flow.spec, flow.coflow
            name = spec.flow
            del flows[name]
            if coflow is None:
                self._ways.forget(flow.group.key)
            else:
                del coflow.flows[name]
                coflow.finished_s = end_s
            finished.append(Finished(name, end_s, spec.coflow))
        self.finished_bytes += self._ways.carried.book_ended(ended)
        self._recent.note_finished(finished)
        return finished

    def _finish_rows(
        self, ended: list[Flow], table: FlowTable, end_s: float
    ) -> Iterator[Finished | Numbers]:
        """The same, where others have no objects."""
        sequence, name, src, dst, size_bytes = map(np.concatenate, zip(*table.ended, strict=True))
        table.ended = []
        self.finished_bytes += int(size_bytes.sum())
        self._ways.carried.book_pairs(table.links, src, dst, size_bytes)
        order = sequence.argsort()
        sequence, name = sequence[order], name[order]
        begin = 0
        for flow in ended:
            end = int(np.searchsorted(sequence, flow.sequence))
            if end > begin:
                yield name[begin:end]
            yield from self._finish([flow], (end_s,))
            begin = end
        if begin < len(name):
            yield name[begin:]
