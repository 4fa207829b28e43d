"""The fetches under way that are not rows: how one is started, recorded and ended.

Never here: what is fetched when; see ``shuffle.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import msgspec

from railyard.cluster.bounded import Priority, Weight
from railyard.cluster.ids import FlowId
from railyard.cluster.messages.execution import CancelFlow
from railyard.resourcemanager.core.shuffling.fetches import Fetch, StageShuffle
from railyard.resourcemanager.core.shuffling.merging import Bundle, Outputs
from railyard.resourcemanager.core.shuffling.rows import FetchTable
from railyard.resourcemanager.core.shuffling.rowshuffle import RowShuffle
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Attempt, Node
from railyard.resourcemanager.core.state.readers import Reader
from railyard.resourcemanager.interface.commands import OpenCoflow
from railyard.resourcemanager.interface.policies import FlowPolicy


class FetchesUnderWay:
    """Fetches by their flows, in the order in which they began."""

    def __init__(self, state: ClusterState, rows: RowShuffle) -> None:
        self._state = state
        self._rows = rows
        self.by_flow: dict[FlowId, Fetch] = {}
        self._tells_of_starts = bool(state.policies.overriding("fetch_started"))
        self._tells_of_ends = bool(state.policies.overriding("fetch_ended"))
        self._has_weights = type(state.policies.flows).weight is not FlowPolicy.weight
        self._has_priorities = type(state.policies.flows).priority is not FlowPolicy.priority
        #: whether policies look at each fetch
        self.are_looked_at = (
            self._tells_of_starts
            or self._tells_of_ends
            or self._has_weights
            or self._has_priorities
        )

    def start(
        self,
        shuffle: StageShuffle,
        attempt: Attempt,
        reader: Reader,
        node: Node,
        outputs: Outputs,
        size_bytes: int,
        bundle: Bundle | None,
    ) -> None:
        """Start one, with what the flow policy says of it; the first opens the stage's coflow."""
        flow = FlowId(f"{attempt.id}:{node.id}:{reader.sequence}")
        reader.sequence += 1
        key = node.id if bundle is None else flow
        self.by_flow[flow] = fetch = Fetch(
            flow,
            key,
            attempt,
            reader,
            shuffle,
            node,
            outputs,
            size_bytes,
            bundle,
            self._rows.next_order(),
        )
        reader.fetches[key] = flow
        policies = self._state.policies
        weight, priority = 1.0, ()
        if self._has_weights:
            answer: object = policies.ask(policies.flows.weight, attempt)
            weight = self._checked("weight", Weight, answer, attempt)
        if bundle is not None:
            weight *= len(bundle.nodes)
        if self._has_priorities:
            answer = policies.ask(policies.flows.priority, attempt, size_bytes)
            priority = self._checked("priority", Priority, answer, attempt)
        if shuffle.started_s is None and node is not attempt.node:
            shuffle.started_s = self._state.now_s
            self._state.emit(OpenCoflow(coflow=shuffle.coflow, job=shuffle.stage.job.id))
        fetch.weight, fetch.priority = weight, priority
        self._state.emit(fetch.start_order)
        if self._tells_of_starts:
            policies.notify("fetch_started", fetch)

    def record(self, fetch: Fetch) -> None:
        """Count the bytes of one that is complete."""
        reader, size_bytes = fetch.reader, fetch.size_bytes
        record = reader.task.stage.job.record
        record.shuffled_bytes += size_bytes
        if fetch.node is reader.node:
            record.fetched_in_node_bytes += size_bytes
            return
        fetch.shuffle.ended_s = self._state.now_s
        source, target = fetch.node.rack, reader.node.rack
        if source == target:
            record.fetched_in_rack_bytes += size_bytes
        else:
            record.sent_bytes[source] += size_bytes
            record.received_bytes[target] += size_bytes

    def cancel(self, fetch: Fetch) -> None:
        """End one that is not wanted any more."""
        self.forget(fetch.id)
        self._state.emit(CancelFlow(flow=fetch.id, dst=fetch.reader.node.id))

    def forget(self, flow: FlowId) -> Fetch | None:
        """One is over; None if it was not known."""
        fetch = self.by_flow.pop(flow, None)
        if fetch is not None:
            del fetch.progress.fetches[fetch.key]
            if self._tells_of_ends:
                self._state.policies.notify("fetch_ended", fetch)
        return fetch

    def take_over(self, table: FetchTable) -> None:
        """Have the fetches of a stage that were rows from now on."""
        fetches = self._rows.name_fetches(table)
        if fetches:
            self.by_flow = self._in_order(fetches)

    def with_rows(self) -> dict[FlowId, Fetch]:
        """All, those that are rows included.  O(fetches)."""
        rows = list(self._rows.as_fetches())
        return self._in_order(rows) if rows else self.by_flow.copy()

    # ---------------------------------------------------------------------------------------------
    def _checked(self, what: str, kind: Any, answer: object, reader: Attempt) -> Any:
        """A flow policy's answer; ``InvalidDecision`` unless the network takes it."""
        try:
            return msgspec.convert(answer, kind)
        except msgspec.ValidationError as error:
            gave = f"gave {answer} as a {what}"
            raise self._state.policies.invalid("flows", gave, str(error), reader) from None

    def _in_order(self, more: Iterable[Fetch]) -> dict[FlowId, Fetch]:
        """The fetches that are not rows, and these, in the order in which they began."""
        fetches = [*self.by_flow.values(), *more]
        return {fetch.id: fetch for fetch in sorted(fetches, key=attrgetter("order"))}
