"""The summary of a run (``summary.json``) from the core's own records.  Pure.

Keys that only others know are added by whoever asks: the network's by ``add_network``,
``workload``, ``verified`` and the like by the command line.  A mean or percentile of no values,
such as the coflow times of map-only jobs, is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from railyard.netemu.emulator.statistics import layer_utilization, link_skew, network_utilization
from railyard.netemu.messages import NetworkStats
from railyard.netemu.model.network import Network
from railyard.resourcemanager.core.cluster import SlotHistory
from railyard.resourcemanager.core.policies import Policies, figures_of
from railyard.resourcemanager.core.records import ByDistance, JobRecord

Spread = dict[str, float | None]


def report(records: Sequence[JobRecord], slots: SlotHistory, now_s: float) -> dict[str, Any]:
    """The summary of these jobs on a cluster with these slots; ``now_s`` ends those that run."""
    begin_s = min((record.submitted_s for record in records), default=now_s)
    ends_s = [now_s if record.finished_s is None else record.finished_s for record in records]
    makespan_s = max(ends_s, default=now_s) - begin_s
    done = [record for record in records if record.ok]  # a job cut short has no completion time
    held_s = sum(record.slot_s for record in records)
    computed_s = sum(record.computed_s for record in records)
    slot_s = slots.slot_s(begin_s, begin_s + makespan_s)
    return {
        "makespan_s": makespan_s,
        "jct_s": spread([record.jct_s for record in done if record.jct_s is not None]),
        "cct_s": spread([cct_s for record in records for cct_s in record.cct_s]),
        "shuffle_skew": spread([skew for record in records if (skew := record.shuffle_skew)]),
        "bytes": _by_distance(
            [distance for record in records for distance in (record.read, record.fetched)],
            "local",
            "cross_rack",
        ),
        "locality": _by_distance([record.locality for record in records], "node", "remote"),
        "tasks": {
            name: sum(getattr(record, name) for record in records)
            for name in ("launched", "succeeded", "failed", "killed", "copies", "copies_chosen")
        },
        "slot_utilization": held_s / slot_s if slot_s else 0.0,
        "compute_utilization": computed_s / slot_s if slot_s else 0.0,
        "jobs": [_job(record) for record in records],
    }


def add_network(summary: dict[str, Any], stats: NetworkStats, network: Network) -> None:
    """Add the network's own counters.

    It counts all bytes that crossed it, and none that stayed on a node.
    """
    carried = {way: count for way, count in stats.bytes.items() if way != "local"}
    summary["bytes"] = {**summary["bytes"], **carried}
    summary["link_skew"] = link_skew(stats)
    summary["network_utilization"] = network_utilization(stats)
    if network.layers:
        summary["layer_utilization"] = layer_utilization(stats, network, summary["makespan_s"])


def add_figures(summary: dict[str, Any], policies: Policies) -> None:
    """Add the policies' own figures, and what went wrong with those that gave none."""
    summary["figures"], broken = figures_of(policies)
    if broken:
        summary["figures_error"] = "\n".join(map(str, broken))


def spread(values: Sequence[float]) -> Spread:
    """Mean, percentiles (linear between values, as numpy's) and maximum."""
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("mean", "p50", "p95", "p99", "max"))
    return {
        "mean": sum(ordered) / len(ordered),
        **{f"p{percent}": _percentile(ordered, percent / 100) for percent in (50, 95, 99)},
        "max": ordered[-1],
    }


def _percentile(ordered: Sequence[float], share: float) -> float:
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def _by_distance(quantities: Sequence[ByDistance], nearest: str, furthest: str) -> dict[str, int]:
    return {
        nearest: sum(quantity.local for quantity in quantities),
        "rack": sum(quantity.rack for quantity in quantities),
        furthest: sum(quantity.remote for quantity in quantities),
    }


def _job(record: JobRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "submitted_s": record.submitted_s,
        "finished_s": record.finished_s,
        "jct_s": record.jct_s,
        "cct_s": max(record.cct_s, default=None),  # the longest, if it is a DAG with several
        "input_bytes": record.input_bytes,
        "shuffle_bytes": record.shuffle_bytes,
        "cross_rack_shuffle_bytes": record.fetched.remote,
        "shuffle_skew": record.shuffle_skew,
        "output_bytes": record.output_bytes,
        "maps": record.maps,
        "reduces": record.reduces,
        "slot_s": record.slot_s,
        "computed_s": record.computed_s,
        "reduce_s": record.reduce_s / record.reduced if record.reduced else None,
        "ok": record.ok,
        **({"reason": record.reason} if record.ok is False else {}),
        **({"counters": dict(sorted(record.counters.items()))} if record.counters else {}),
        **({"steps": list(record.steps)} if record.steps else {}),
    }
