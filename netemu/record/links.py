"""How many bytes each link had carried by when: the data of pictures of a network's load.

Samples are totals, not rates, so that a missing sample loses no bytes.  However long a run is, at
most ``SAMPLES_MAX`` samples are kept: when there are more, every other one is dropped, and they
come half as often from then on.  Pure; the emulation and the simulator both feed one.

Its file, ``network.jsonl``, has the links first, then the circuits (``circuits``), then the
samples, each with the links whose total has changed since the one before, and, if that has
changed, what links carry from then on that carry more or less than the first row says:

    {"type": "links", "capacity_bytes_per_s": {"r0.up": 1.25e9, "r0.down": null, ...}}
    {"type": "circuit", "src": "r0", "dst": "r3", "coflow": "j1.r", ...}
    {"at_s": 1.25, "bytes": {"r0.up": 31250000}}
    {"at_s": 1.35, "bytes": {"r0.up": 31350000}, "now_bytes_per_s": {"r0.up": 1.0e6}}
    {"at_s": 1.45, "bytes": {"r0.up": 31450000}, "now_bytes_per_s": {}}
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from railyard.netemu.record.rows import read_rows

SAMPLES_MAX = 1000


class Sample(NamedTuple):
    """What has changed since the sample before."""

    at_s: float
    bytes: dict[str, int]  #: totals
    #: capacities from now on that are not the stated ones, None for no limit; None: as before
    now_bytes_per_s: dict[str, float | None] | None


class LinkLog:
    """Total bytes of each link over time, in the model's bytes."""

    def __init__(self, period_s: float = 0.1) -> None:
        self.period_s = period_s  #: seconds from one sample to the next
        #: time, totals, and capacities that are not the stated ones
        self._samples: list[tuple[float, Mapping[str, int], dict[str, float | None]]] = []

    def wants(self, at_s: float) -> bool:
        """Whether a sample is due at this time."""
        return not self._samples or at_s >= self._samples[-1][0] + self.period_s

    def take(
        self,
        at_s: float,
        link_bytes: Mapping[str, int],
        now_bytes_per_s: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Add a sample: the bytes that each link has carried so far.

        ``now_bytes_per_s``: the capacities of links that are not the stated ones.
        """
        self._samples.append((at_s, link_bytes, or_none(now_bytes_per_s)))
        if len(self._samples) > SAMPLES_MAX:
            del self._samples[1::2]
            self.period_s *= 2

    def write(
        self,
        path: Path,
        capacities_bytes_per_s: Mapping[str, float],
        circuit_rows: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Write the file; a capacity without limit is null."""
        with path.open("w", encoding="utf-8") as file:
            known = {"type": "links", "capacity_bytes_per_s": or_none(capacities_bytes_per_s)}
            file.write(json.dumps(known) + "\n")
            for row in circuit_rows:
                file.write(json.dumps(row) + "\n")
            for sample in self.changes():
                row = sample._asdict()
                if sample.now_bytes_per_s is None:
                    del row["now_bytes_per_s"]
                file.write(json.dumps(row) + "\n")

    def changes(self) -> Iterator[Sample]:
        """The samples."""
        written: dict[str, int] = {}
        before: dict[str, float | None] = {}
        for at_s, totals, now in self._samples:
            changed = {
                name: total for name, total in totals.items() if total != written.get(name, 0)
            }
            written |= changed
            yield Sample(at_s, changed, None if now == before else now)
            before = now


def read_samples(path: Path) -> list[Sample]:
    """The samples in a ``network.jsonl``; none if there is no such file.

    Raises ``UsageError`` for what is no such record.
    """
    return read_rows(path, _sample_of)


def _sample_of(row: dict[str, Any]) -> Sample | None:
    if "at_s" not in row:
        return None
    return Sample(row["at_s"], row["bytes"], row.get("now_bytes_per_s"))


def or_none(capacities_bytes_per_s: Mapping[str, float]) -> dict[str, float | None]:
    """Capacities as JSON has them: null is one without limit."""
    return {
        name: capacity if math.isfinite(capacity) else None
        for name, capacity in capacities_bytes_per_s.items()
    }
