"""A run's figures in words for people: bytes that were moved, policies' figures, jobs' counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from railyard.cluster.units import NO_UNIT, Unit, format_size, size_unit, time_unit
from railyard.jobs.operators import COUNTED

_DISTANCES = {"local": "within nodes", "rack": "within racks", "cross_rack": "between racks"}
_WAYS = {"eps": "by packets", "ocs": "by circuits", "wan": "between sites"}
#: Endings of the names of policies' figures that are units.
_UNITS: dict[str, Callable[[float], Unit]] = {"_s": time_unit, "_bytes": size_unit}


def moved_words(moved: Mapping[str, int]) -> str:
    """What was moved how far, and by which way: "8 GB within nodes, 3 GB between racks (...)"."""
    words = [f"{format_size(moved[key])} {how}" for key, how in _DISTANCES.items() if moved[key]]
    ways = [key for key in _WAYS if moved.get(key)]
    if len(ways) == 1 and moved["cross_rack"]:
        words[-1] += f" ({_WAYS[ways[0]]})"
    elif ways:
        words[-1] += f" ({', '.join(f'{format_size(moved[key])} {_WAYS[key]}' for key in ways)})"
    return ", ".join(words) or "nothing"


def figure_words(name: str) -> str:
    """The name of a policy's figure for readers: "waited" for waited_s."""
    return name.removesuffix(_suffix(name)).replace("_", " ")


def figure_unit(name: str, value: float) -> Unit:
    """The unit in which a policy's figure of this size is shown."""
    suffix = _suffix(name)
    return _UNITS[suffix](abs(value)) if suffix else NO_UNIT


def own_counters(job: Mapping[str, Any]) -> dict[str, int]:
    """What a job's own code counted, without what is counted of every job."""
    return {
        name: count
        for name, count in job.get("counters", {}).items()
        if name.rpartition(".")[2] not in COUNTED
    }


def _suffix(name: str) -> str:
    return next((suffix for suffix in _UNITS if name.endswith(suffix)), "")
