"""What fetches waited for: the times in which an attempt fetched nothing, and what flows went by.

Pure.  Never here: replaying.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from railyard.cluster.ids import RackId, rack_of
from railyard.netemu.record.circuits import CircuitUse
from railyard.resourcemanager.driving.explaining.explanation import (
    AttemptStory,
    CircuitUsed,
    Fetched,
    Idle,
    PairStory,
)


def idle_times(story: AttemptStory) -> list[Idle]:
    """When an attempt that reads stages fetched nothing before its last fetch began."""
    found: list[Idle] = []
    until_s = story.at_s  #: up to which something was fetched, or nothing had to be
    for fetch in sorted(story.fetches, key=lambda each: each.started_s):
        if fetch.started_s > until_s:
            found.append(Idle(until_s, fetch.started_s, _why_not_before(fetch, until_s)))
        ended_s = fetch.started_s if fetch.ended_s is None else fetch.ended_s
        until_s = max(until_s, ended_s)
    return found


def why_begun(fetch: Fetched, reader_s: float | None, before: Fetched | None) -> str:
    """Why a fetch began when it did."""
    at_s, causes = fetch.started_s, []
    if reader_s is not None and reader_s == at_s:
        causes.append(f"its reader {fetch.reader} was launched then")
    if fetch.last_output_s is not None and fetch.last_output_s == at_s:
        causes.append(f"{fetch.last_output}, whose output it carries, ended then on {fetch.src}")
    if before is not None and before.ended_s == at_s:
        causes.append(f"{before.flow} from {fetch.src} ended then: one at a time from each node")
    if causes:
        return "; ".join(causes)
    return "the shuffle policy let its stage fetch then, or a fetch was tried again"


def _why_not_before(fetch: Fetched, idle_s: float) -> str:
    if fetch.last_output_s is None or fetch.last_output_s <= idle_s:
        return "the shuffle policy did not let it fetch, or a fetch was to be tried again"
    return f"nothing was ready before {fetch.last_output} ended on {fetch.src}"


def pairs_of(flows: Iterable[Fetched], circuits: Sequence[CircuitUse]) -> list[PairStory]:
    """What coflows sent between racks, pair by pair."""
    by_pair: dict[tuple[str, RackId, RackId], list[Fetched]] = {}
    for flow in flows:
        src, dst = rack_of(flow.src), rack_of(flow.dst)
        if src != dst:
            by_pair.setdefault((flow.coflow, src, dst), []).append(flow)
    return [_pair(*key, some, circuits) for key, some in by_pair.items()]


def _pair(
    coflow: str, src: RackId, dst: RackId, flows: list[Fetched], circuits: Sequence[CircuitUse]
) -> PairStory:
    ended = [flow.ended_s for flow in flows if flow.ended_s is not None]
    used = [
        CircuitUsed(
            src=use.src, dst=use.dst, coflow=use.coflow,
            begin_s=use.begin_s, lit_s=use.lit_s, end_s=use.end_s,
        )
        for use in circuits
        if (use.coflow, use.src, use.dst) == (coflow, src, dst)
    ]  # fmt: skip
    return PairStory(
        coflow=coflow,
        src=src,
        dst=dst,
        flows=len(flows),
        size_bytes=sum(flow.size_bytes for flow in flows),
        first_s=min(flow.started_s for flow in flows),
        last_s=max(ended) if len(ended) == len(flows) else None,
        most_left_bytes=_most_left_bytes(flows),
        circuits=used,
    )


def _most_left_bytes(flows: Sequence[Fetched]) -> int:
    """The most bytes of these flows that were open at one time; what had been sent counts."""
    changes: list[tuple[float, int, int]] = []
    for flow in flows:
        changes.append((flow.started_s, 1, flow.size_bytes))
        if flow.ended_s is not None:
            changes.append((flow.ended_s, 0, -flow.size_bytes))
    most = left = 0
    for _, _, by_bytes in sorted(changes):
        left += by_bytes
        most = max(most, left)
    return most
