"""Explains flows, coflows and circuits, as far as orders, ends and the record of circuits tell.

Never here: rates, which no run records flow by flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import FlowId, RackId, StageId
from railyard.netemu.record.circuits import CircuitUse
from railyard.netemu.schedulers import flow_schedulers
from railyard.resourcemanager.driving.eventlog import read_log, replay_on
from railyard.resourcemanager.driving.explaining.attempts import AttemptLog
from railyard.resourcemanager.driving.explaining.explanation import (
    CoflowExplanation,
    Fetched,
    FlowExplanation,
    PairStory,
)
from railyard.resourcemanager.driving.explaining.fetching import pairs_of, why_begun
from railyard.resourcemanager.driving.explaining.headers import header
from railyard.resourcemanager.driving.explaining.recorder import Recorder
from railyard.resourcemanager.driving.makecore import core_for

_RATES = "the rates of flows over time: a run records its links' loads, not each flow's rate"
_CHOICE = "why the circuit policy chose a pair before others: its order of coflows is not recorded"
_NO_CIRCUITS = "circuits: there is no network.jsonl beside the events"


def explain_flow(
    config: ClusterConfig, recorder: Recorder, name: str, circuits: Sequence[CircuitUse] | None
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
    pairs = pairs_of(
        [each for each in flows.values() if each.coflow == flow.coflow], circuits or ()
    )
    ends = flow.src.split("n")[0], flow.dst.split("n")[0]
    return FlowExplanation(
        **header(config, name, recorder.last_s),
        unknown=_unknown(config, circuits),
        flow=flow,
        reader_since_s=reader_s,
        before=None if before is None else before.flow,
        before_ended_s=None if before is None else before.ended_s,
        why=why_begun(flow, reader_s, before),
        pair=next((pair for pair in pairs if (pair.src, pair.dst) == ends), None),
        elephant_bytes=_elephant_bytes(config),
    )


def explain_coflow(
    config: ClusterConfig, recorder: Recorder, stage: StageId, circuits: Sequence[CircuitUse] | None
) -> CoflowExplanation:
    """The shuffle of a stage of a job that was replayed."""
    assert recorder.submitted is not None, "the job was submitted"
    reading = [f"{recorder.job}.{plan.name}" for plan in recorder.submitted.stages if plan.reads]
    if stage not in reading:
        there = ", ".join(reading) or "none"
        raise UsageError(f"{stage}: there is no such coflow; {recorder.job} has {there}")
    flows = [flow for flow in recorder.attempts.flows.values() if flow.coflow == stage]
    return CoflowExplanation(
        **header(config, stage, recorder.last_s),
        unknown=_unknown(config, circuits),
        opened_s=recorder.opened_s.get(stage),
        closed_s=recorder.closed_s.get(stage),
        pairs=pairs_of(flows, circuits or ()),
        elephant_bytes=_elephant_bytes(config),
    )


def explain_circuit(
    events: Path,
    config: ClusterConfig,
    src: RackId,
    dst: RackId,
    circuits: Sequence[CircuitUse] | None,
) -> CoflowExplanation:
    """All that was sent from one rack to another, and the circuits that coflows had there."""
    racks = [rack.id for rack in config.topology.rack_list()]
    for rack in (src, dst):
        if rack not in racks:
            raise UsageError(
                f"{src}-{dst}: there is no rack {rack}; need two of {racks[0]} to {racks[-1]}"
            )
    core = core_for(config)
    log, recorded_s = AttemptLog(core.state, lambda _: True), 0.0
    for step in replay_on(core, events, read_log(events)[1]):
        log.take(step)
        recorded_s = step.at_s
    pairs: list[PairStory] = pairs_of(log.flows.values(), circuits or ())
    return CoflowExplanation(
        **header(config, f"{src}-{dst}", recorded_s),
        unknown=_unknown(config, circuits),
        opened_s=None,
        closed_s=None,
        pairs=[pair for pair in pairs if (pair.src, pair.dst) == (src, dst)],
        elephant_bytes=_elephant_bytes(config),
    )


def _before(flow: Fetched, flows: Iterable[Fetched]) -> Fetched | None:
    """The flow from the same node to the same reader before this one."""
    earlier = [
        each
        for each in flows
        if (each.reader, each.src) == (flow.reader, flow.src)
        and each is not flow
        and each.started_s <= flow.started_s
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
