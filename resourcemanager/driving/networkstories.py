"""What flows, coflows and circuits went by, as far as orders, ends and the record of circuits tell.

Never here: rates, which no run records flow by flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import FlowId, RackId, StageId, rack_of
from railyard.netemu.record import CircuitUse
from railyard.netemu.schedulers import flow_schedulers
from railyard.resourcemanager.driving.eventlog import read_log
from railyard.resourcemanager.driving.explanation import (
    AttemptStory,
    CircuitUsed,
    CoflowExplanation,
    Fetched,
    FlowExplanation,
    Idle,
    PairStory,
)
from railyard.resourcemanager.driving.stories import AttemptStories, Recorder, replay_for

_RATES = "the rates of flows over time: a run records its links' loads, not each flow's rate"
_CHOICE = "why the circuit policy chose a pair before others: its order of coflows is not recorded"
_NO_CIRCUITS = "circuits: there is no network.jsonl beside the events"


def explain_flow(
    recorder: Recorder, name: str, circuits: Sequence[CircuitUse] | None
) -> FlowExplanation:
    """A flow of a job that was replayed."""
    flows = recorder.attempts.flows
    flow = flows.get(FlowId(name))
    if flow is None:
        some = ", ".join(list(flows)[:3]) or "none"
        raise UsageError(f"{name}: there is no such flow; {recorder.job} has {some} ...")
    before = _before(flow, flows.values())
    reader = recorder.attempts.stories.get(flow.reader)
    reader_s = None if reader is None else reader.at_s
    ends = rack_of(flow.src), rack_of(flow.dst)
    of_coflow = [each for each in flows.values() if each.coflow == flow.coflow]
    pairs = pairs_of(of_coflow, circuits or ())
    return FlowExplanation(
        **recorder.header(name),
        unknown=_unknown(recorder.config, circuits),
        flow=flow,
        reader_since_s=reader_s,
        before=None if before is None else before.flow,
        before_ended_s=None if before is None else before.ended_s,
        why=why_begun(flow, reader_s, before),
        pair=next((pair for pair in pairs if (pair.src, pair.dst) == ends), None),
        elephant_bytes=_elephant_bytes(recorder.config),
    )


def explain_coflow(
    recorder: Recorder, stage: StageId, circuits: Sequence[CircuitUse] | None
) -> CoflowExplanation:
    """The shuffle of a stage of a job that was replayed."""
    assert recorder.submitted is not None, "the job was submitted"
    reading = [f"{recorder.job}.{plan.name}" for plan in recorder.submitted.stages if plan.reads]
    if stage not in reading:
        there = ", ".join(reading) or "none"
        raise UsageError(f"{stage}: there is no such coflow; {recorder.job} has {there}")
    flows = [flow for flow in recorder.attempts.flows.values() if flow.coflow == stage]
    coflow = recorder.coflows.get(stage)
    return CoflowExplanation(
        **recorder.header(stage),
        unknown=_unknown(recorder.config, circuits),
        opened_s=None if coflow is None else coflow.opened_s,
        closed_s=None if coflow is None else coflow.closed_s,
        pairs=pairs_of(flows, circuits or ()),
        elephant_bytes=_elephant_bytes(recorder.config),
    )


def explain_circuit(
    events: Path, src: RackId, dst: RackId, circuits: Sequence[CircuitUse] | None
) -> CoflowExplanation:
    """All that was sent from one rack to another, and the circuits that coflows had there."""
    racks = [rack.id for rack in read_log(events)[0].topology.rack_list()]
    for rack in (src, dst):
        if rack not in racks:
            raise UsageError(
                f"{src}-{dst}: there is no rack {rack}; need two of {racks[0]} to {racks[-1]}"
            )
    [log] = replay_for(events, [lambda core: AttemptStories(core.state, lambda _: True)])
    pairs = pairs_of(log.flows.values(), circuits or ())
    return CoflowExplanation(
        **log.header(f"{src}-{dst}"),
        unknown=_unknown(log.config, circuits),
        opened_s=None,
        closed_s=None,
        pairs=[pair for pair in pairs if (pair.src, pair.dst) == (src, dst)],
        elephant_bytes=_elephant_bytes(log.config),
    )


def _before(flow: Fetched, flows: Iterable[Fetched]) -> Fetched | None:
    """The flow from the same node to the same reader before this one."""
    earlier = [
        each
        for each in flows
        if (each.reader, each.src) == (flow.reader, flow.src)
        and each is not flow
        and each.ended_s is not None
        and each.ended_s <= flow.started_s
    ]
    return max(earlier, key=lambda each: each.ended_s or 0.0, default=None)


def _elephant_bytes(config: ClusterConfig) -> float | None:
    uses = flow_schedulers()[config.flow_scheduler].circuit_policy is not None
    ocs = config.topology.ocs
    return float(ocs.elephant_bytes) if ocs is not None and uses else None


def _unknown(config: ClusterConfig, circuits: Sequence[CircuitUse] | None) -> list[str]:
    if _elephant_bytes(config) is None:
        return [_RATES]
    return [_RATES, _NO_CIRCUITS if circuits is None else _CHOICE]


def idle_times(story: AttemptStory) -> Iterator[Idle]:
    """When an attempt that reads stages fetched nothing before its last fetch began."""
    until_s = story.at_s  #: up to which something was fetched, or nothing had to be
    for fetch in sorted(story.fetches, key=lambda each: each.started_s):
        if fetch.started_s > until_s:
            why = "the shuffle policy did not let it fetch, or a fetch was to be tried again"
            if fetch.last_output_s is not None and fetch.last_output_s > until_s:
                why = f"nothing was ready before {fetch.last_output} ended on {fetch.src}"
            yield Idle(until_s, fetch.started_s, why)
        until_s = max(until_s, fetch.started_s, fetch.ended_s or 0.0)


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
    used = [use for use in circuits if (use.coflow, use.src, use.dst) == (coflow, src, dst)]
    return PairStory(
        coflow=coflow,
        src=src,
        dst=dst,
        flows=len(flows),
        size_bytes=sum(flow.size_bytes for flow in flows),
        first_s=min(flow.started_s for flow in flows),
        last_s=max(ended) if len(ended) == len(flows) else None,
        most_left_bytes=_most_left_bytes(flows),
        circuits=[CircuitUsed(**use._asdict()) for use in used],
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
