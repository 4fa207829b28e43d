"""Statistics for people and summaries, from the emulator's counters (``NetworkStats``).  Pure.

For a span of time, take ``since(counters at its end, counters at its beginning)``.
"""

from __future__ import annotations

import math
from typing import TypeVar

import msgspec

from railyard.netemu.messages import NetworkStats
from railyard.netemu.model.network import Network

K = TypeVar("K", str, int)


#: Counters that are plain numbers.
_NUMBERS = (
    "active_s",
    "cpu_samples",
    "cpu_saturated",
    "flows_opened",
    "flows_finished",
    "flows_cancelled",
)


def plus(before: NetworkStats | None, now: NetworkStats) -> NetworkStats:
    """The counters of an emulator and of those before it.  ``flows_open`` stays the latest."""
    return now if before is None else _combined(now, before, 1)


def since(now: NetworkStats, before: NetworkStats) -> NetworkStats:
    """The counters of the time between two readings.  ``flows_open`` stays the latest."""
    return _combined(now, before, -1)


def link_skew(stats: NetworkStats) -> float:
    """Bytes of the busiest cross-rack link over those of the least busy one in use; 0 = none."""
    used = [count for count in stats.cross_rack_links.values() if count > 0]
    return max(used) / min(used) if used else 0.0


def network_utilization(stats: NetworkStats) -> float:
    """Share of the cross-rack capacity used while any flow was open; 0 if it is unlimited."""
    room = stats.cross_rack_room_bytes
    carried = sum(stats.cross_rack_links.values())
    return carried / room if 0 < room < math.inf else 0.0


def layer_utilization(stats: NetworkStats, network: Network, span_s: float) -> dict[str, float]:
    """Share used of each layer of switches as stated; {} without a tree, 0 without limits."""
    found: dict[str, float] = {}
    for layer, switches in network.layers.items():
        bytes_per_s = float(sum(network.capacities[network.number[name]] for name in switches))
        carried = sum(stats.cross_rack_links[name] for name in switches)
        room = bytes_per_s * span_s
        found[layer] = carried / room if 0 < room < math.inf else 0.0
    return found


def lateness_class(late_s: float) -> int:
    """A lateness in 0.1 ms, rounded up; from 10 ms on to two digits, so that there are few."""
    tenth_ms, step = math.ceil(late_s * 1e4), 1
    while tenth_ms >= 100 * step:
        step *= 10
    return -(-tenth_ms // step) * step


def grant_lag_ms_p99(stats: NetworkStats) -> float:
    """Lateness in ms that 99 % of the grants did not exceed; 0 if there were none."""
    needed = math.ceil(sum(count for _, count in stats.grant_lags) * 0.99)
    seen = 0
    for tenth_ms, count in sorted(stats.grant_lags):
        seen += count
        if seen >= needed > 0:
            return tenth_ms / 10
    return 0.0


def cpu_saturated(stats: NetworkStats) -> float:
    """Share (0 to 1) of the time with open flows during which all CPUs were busy."""
    return stats.cpu_saturated / stats.cpu_samples if stats.cpu_samples else 0.0


def _combined(now: NetworkStats, before: NetworkStats, sign: int) -> NetworkStats:
    """``now`` and ``sign`` times what was counted before."""
    room = now.cross_rack_room_bytes
    lags = _sums(dict(now.grant_lags), dict(before.grant_lags), sign)
    return msgspec.structs.replace(
        now,
        **{name: getattr(now, name) + sign * getattr(before, name) for name in _NUMBERS},
        # two infinities have no difference
        cross_rack_room_bytes=room
        + (sign * before.cross_rack_room_bytes if math.isfinite(room) else 0.0),
        bytes=_sums(now.bytes, before.bytes, sign),
        cross_rack_links=_sums(now.cross_rack_links, before.cross_rack_links, sign),
        ports=_sums(now.ports, before.ports, sign),
        grant_lags=tuple(sorted(lags.items())),
    )


def _sums(now: dict[K, int], before: dict[K, int], sign: int) -> dict[K, int]:
    return {key: now.get(key, 0) + sign * before.get(key, 0) for key in now | before}
