"""What a reduce attempt fetches: map output of its own node from the disk, the rest by flows.

Each ``FetchOutput`` that the NodeManager passes on ends in one ``FlowFinished`` or ``FlowFailed``.
What a broken fetch had brought already is dropped: the ResourceManager asks for it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from crc32c import crc32c

from railyard.cluster.errors import PeerError, PeerLost, shortened
from railyard.cluster.files import new_buffer
from railyard.cluster.ids import AttemptId, FlowId, RackId, TaskId, rack_of, stage_of, task_of
from railyard.cluster.messages import (
    CancelFlow,
    FetchOutput,
    FlowFailed,
    FlowFinished,
    LaunchAttempt,
    Spans,
    total_s,
)
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import REASON_LETTERS_MAX, Refusal
from railyard.cluster.runfolder import RunFolder
from railyard.netemu.transfers import IncomingTransfer, LinkTransfers
from railyard.nodemanager.messages import OutputPart, OutputsFound, ReadOutputs
from railyard.nodemanager.shuffle import (
    MapOutput,
    OutputDamaged,
    OutputUnreadable,
    damaged_part,
    output_path,
    part_seed,
)


class Assembly:
    """Takes the one stream of a fetch, in pieces of any size, apart into map outputs."""

    def __init__(self, expected: Sequence[OutputPart], seeds: Sequence[int]) -> None:
        self._expected = expected
        self._seeds = seeds
        self._stream = new_buffer(sum(part.stored_bytes for part in expected))
        self._filled = 0  #: bytes that are here

    def add(self, data: memoryview) -> None:
        self._stream[self._filled : self._filled + len(data)] = data
        self._filled += len(data)

    def parts(self) -> tuple[list[memoryview], list[int]]:
        """All parts, once all have come, and the numbers of those whose checksum is wrong."""
        ends = list(accumulate((part.stored_bytes for part in self._expected), initial=0))
        parts = [self._stream[begin:end] for begin, end in pairwise(ends)]
        sums = map(crc32c, parts, self._seeds)
        pairs = enumerate(zip(sums, self._expected, strict=True))
        return parts, [number for number, (found, part) in pairs if found != part.checksum]


@dataclass(kw_only=True)
class _Fetch:
    """A fetch over the network."""

    order: FetchOutput
    began_s: float
    incoming: IncomingTransfer
    assembly: Assembly | None = None  #: once the source has answered what it will send


class Fetches:
    """All fetches of one attempt."""

    def __init__(
        self, transport: Transport, umbilical: Link, folder: RunFolder, launched: LaunchAttempt
    ) -> None:
        self._transport = transport
        self._umbilical = umbilical
        self._folder = folder
        self._node = launched.node
        self._wanted = launched.task.inputs
        self._ready: deque[tuple[str, memoryview]] = deque()
        self._have: set[TaskId] = set()  #: tasks whose output is here
        self._under_way: dict[FlowId, _Fetch] = {}
        self._links: dict[RackId, tuple[Link, LinkTransfers]] = {}
        self._reads: Spans = {}  #: when something came over the network
        umbilical.on(FetchOutput, lambda order, _: self._fetch(order))
        umbilical.on(CancelFlow, lambda order, _: self._cancel(order.flow))

    @property
    def arrived(self) -> bool:
        return len(self._have) >= self._wanted

    @property
    def complete(self) -> bool:
        """Whether all outputs have arrived and were handed out."""
        return self.arrived and not self._ready

    @property
    def read_s(self) -> float:
        """For how long at least one fetch that succeeded was under way."""
        return total_s(self._reads)

    def next(self) -> tuple[str, memoryview]:
        """Wait for the next output; returns its stage's name and its bytes."""
        self._transport.reactor.run_until(lambda: bool(self._ready))
        return self._ready.popleft()

    # Orders ------------------------------------------------------------------------------------
    def _cancel(self, flow: FlowId) -> None:
        fetch = self._under_way.pop(flow, None)
        if fetch is not None:
            fetch.incoming.fail("the fetch was cancelled")

    # From the own disk -------------------------------------------------------------------------
    def _read_own_disk(self, order: FetchOutput) -> None:
        found: list[memoryview] = []
        lost: dict[AttemptId, str] = {}
        for attempt in order.outputs:
            try:
                path = output_path(self._folder, order.src, attempt)
                found.append(MapOutput(path).read(order.partition))
            except (OutputDamaged, PeerError) as error:
                lost[attempt] = str(error)
            except OutputUnreadable as error:
                self._failed(order, str(error))
                return
        if lost:
            self._failed(order, "; ".join(lost.values()), tuple(lost))
        else:
            self._finished(order, found)

    # Over the network --------------------------------------------------------------------------
    def _fetch(self, order: FetchOutput) -> None:
        if order.src == self._node:
            self._read_own_disk(order)
            return
        flow = order.flow
        link, transfers = self._link(order.rack)
        incoming = transfers.incoming(
            flow,
            take=lambda data: self._take(flow, data),
            on_done=lambda: self._arrived(flow),
            on_failed=lambda reason: self._broke_off(flow, reason),
        )
        self._under_way[flow] = _Fetch(order=order, began_s=now_s(), incoming=incoming)
        question = ReadOutputs(
            flow=flow, src=order.src, outputs=order.outputs, partition=order.partition
        )
        link.request(question, OutputsFound, lambda answer, _: self._on_answer(flow, answer))

    def _on_answer(self, flow: FlowId, answer: OutputsFound | Refusal | PeerLost) -> None:
        fetch = self._under_way.get(flow)
        if fetch is None:
            return  # cancelled
        outputs = fetch.order.outputs
        if isinstance(answer, PeerLost):
            self._comes_to_nothing(fetch, str(answer), gone=True)
        elif isinstance(answer, Refusal):
            self._comes_to_nothing(fetch, str(answer))
        elif answer.lost or len(answer.parts) != len(outputs):
            self._comes_to_nothing(fetch, answer.reason, answer.lost)
        else:
            seeds = [part_seed(output, fetch.order.partition) for output in outputs]
            fetch.assembly = Assembly(answer.parts, seeds)
            fetch.incoming.total = sum(part.stored_bytes for part in answer.parts)

    def _comes_to_nothing(
        self, fetch: _Fetch, reason: str, lost: tuple[AttemptId, ...] = (), gone: bool = False
    ) -> None:
        del self._under_way[fetch.order.flow]
        fetch.incoming.failed("nothing will be sent")
        self._failed(fetch.order, reason, lost, gone)

    def _take(self, flow: FlowId, data: memoryview) -> None:
        fetch = self._under_way.get(flow)
        if fetch is None:
            return
        if fetch.assembly is None:
            fetch.incoming.fail("bytes came before the answer that describes them")
        else:
            fetch.assembly.add(data)

    def _arrived(self, flow: FlowId) -> None:
        fetch = self._under_way.pop(flow)
        assert fetch.assembly is not None, "its bytes would have been refused"
        order = fetch.order
        parts, wrong = fetch.assembly.parts()
        damaged = [order.outputs[number] for number in wrong]
        if damaged:
            words = [str(damaged_part(attempt, order.partition)) for attempt in damaged]
            self._failed(order, "; ".join(words), tuple(damaged))
        else:
            self._reads[fetch.began_s] = now_s()
            self._finished(order, parts)

    def _broke_off(self, flow: FlowId, reason: str) -> None:
        fetch = self._under_way.pop(flow, None)
        if fetch is not None:
            self._failed(fetch.order, reason)

    def _link(self, rack: RackId) -> tuple[Link, LinkTransfers]:
        """The link to a rack's shuffle service, made once; the own rack's is the umbilical.

        It is waited for without limit: on an overloaded machine a connection takes its time, and
        the ResourceManager, which knows who has died, cancels fetches from there.
        """
        link, transfers = self._links.get(rack, (None, None))
        if link is None or transfers is None or link.lost:
            if rack == rack_of(self._node):
                link = self._umbilical
            else:
                link = self._transport.link(
                    f"nodemanager-{rack}", on_lost=lambda: self._source_lost(rack), patience_s=None
                )
            transfers = LinkTransfers(link)
            self._links[rack] = link, transfers
        return link, transfers

    def _source_lost(self, rack: RackId) -> None:
        """All output of a rack is out of reach, until its NodeManager is started again."""
        for fetch in list(self._under_way.values()):
            if fetch.order.rack == rack:
                self._comes_to_nothing(fetch, f"nodemanager-{rack} is gone", gone=True)

    # Results -----------------------------------------------------------------------------------
    def _finished(self, order: FetchOutput, parts: Sequence[memoryview]) -> None:
        for attempt, data in zip(order.outputs, parts, strict=True):
            # A map that ran again brings the same output once more.
            if task_of(attempt) not in self._have:
                self._have.add(task_of(attempt))
                self._ready.append((stage_of(attempt).split(".")[1], data))
        self._umbilical.send(FlowFinished(flow=order.flow))

    def _failed(
        self, order: FetchOutput, reason: str, lost: tuple[AttemptId, ...] = (), gone: bool = False
    ) -> None:
        reason = shortened(reason, REASON_LETTERS_MAX)
        self._umbilical.send(FlowFailed(flow=order.flow, reason=reason, lost=lost, gone=gone))
