"""How many bytes each link had carried by when: the data of pictures of a network's load.

Samples are totals, not rates, so that a missing sample loses no bytes.  However long a run is, at
most ``SAMPLES_MAX`` samples are kept: when there are more, every other one is dropped, and they
come half as often from then on.  Pure; the emulation and the simulator both feed one.

Its file, ``network.jsonl``, has the links first, then the circuits (``circuits``), then the
samples, each with the links whose total has changed since the one before:

    {"type": "links", "capacity_bytes_per_s": {"r0.up": 1.25e9, "r0.down": null, ...}}
    {"type": "circuit", "src": "r0", "dst": "r3", "coflow": "j1.r", ...}
    {"at_s": 1.25, "bytes": {"r0.up": 31250000}}
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from railyard.netemu.record.rows import read_rows

SAMPLES_MAX = 1000


class LinkLog:
    """Total bytes of each link over time, in the model's bytes."""

    def __init__(self, period_s: float = 0.1) -> None:
        self.period_s = period_s  #: seconds from one sample to the next
        self._samples: list[tuple[float, Mapping[str, int]]] = []

    def wants(self, at_s: float) -> bool:
        """Whether a sample is due at this time."""
        return not self._samples or at_s >= self._samples[-1][0] + self.period_s

    def take(self, at_s: float, link_bytes: Mapping[str, int]) -> None:
        """Add a sample: the bytes that each link has carried so far."""
        self._samples.append((at_s, link_bytes))
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
            known = {
                name: capacity if math.isfinite(capacity) else None
                for name, capacity in capacities_bytes_per_s.items()
            }
            file.write(json.dumps({"type": "links", "capacity_bytes_per_s": known}) + "\n")
            for row in circuit_rows:
                file.write(json.dumps(row) + "\n")
            for at_s, changed in self.changes():
                file.write(json.dumps({"at_s": at_s, "bytes": changed}) + "\n")

    def changes(self) -> Iterator[tuple[float, dict[str, int]]]:
        """The samples: when, and the totals that have changed since the one before."""
        written: dict[str, int] = {}
        for at_s, totals in self._samples:
            changed = {
                name: total for name, total in totals.items() if total != written.get(name, 0)
            }
            written |= changed
            yield at_s, changed


def read_samples(path: Path) -> list[tuple[float, dict[str, int]]]:
    """The samples in a ``network.jsonl``; none if there is no such file.

    Raises ``UsageError`` for what is no such record.
    """
    return read_rows(path, lambda row: (row["at_s"], row["bytes"]) if "at_s" in row else None)
