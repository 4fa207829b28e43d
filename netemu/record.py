"""The record of a run's network, ``network.jsonl``: the data of pictures of its load and circuits.

The emulation and the simulator both feed one.  Samples of links are totals, not rates, so that a
missing sample loses no bytes.  However long a run is, at most ``SAMPLES_MAX`` are kept: when there
are more, every other one is dropped, and they come half as often from then on.

The file has the links first, then a row for each time that a coflow had a circuit, then the
samples, each with the links whose total has changed since the one before, and, if that has changed,
the capacities that are not those of the first row:

    {"type": "links", "capacity_bytes_per_s": {"r0.up": 1.25e9, "r0.down": null, ...}}
    {"type": "circuit", "src": "r0", "dst": "r3", "coflow": "j1.r", "begin_s": 1.0, "lit_s": 1.01,
     "end_s": 2.5}
    {"at_s": 1.25, "bytes": {"r0.up": 31250000}}
    {"at_s": 1.35, "bytes": {"r0.up": 31350000}, "now_bytes_per_s": {"r0.up": 1.0e6}}
    {"at_s": 1.45, "bytes": {"r0.up": 31450000}, "now_bytes_per_s": {}}

``begin_s``: when the coflow got the circuit; ``lit_s``: when it could send, which is ``begin_s``
where the circuit was lit already, and null where the coflow lost it dark; ``end_s``: when it lost
it.  A circuit that is up while no coflow uses it leaves no row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from railyard.cluster.errors import UsageError
from railyard.cluster.inputfile import read_text_file
from railyard.cluster.messaging.wire import RackId
from railyard.netemu.model.flows import CIRCUITS_OF_ONE, CircuitChange

T = TypeVar("T")
SAMPLES_MAX = 1000
#: This many uses are kept of a run, and how many more there were.
USES_MAX = 50_000


def read_rows(path: Path, take: Callable[[dict[str, Any]], T | None]) -> list[T]:
    """What ``take`` makes of each row, but for None; ``UsageError`` for what is no record."""
    if not path.is_file():
        return []
    try:
        rows = map(json.loads, read_text_file(path, "record of the network").splitlines())
        return [taken for row in rows if (taken := take(row)) is not None]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        what = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: is no record of the network: {what}") from None


# Links --------------------------------------------------------------------------------------------
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
        return not self._samples or at_s >= self._samples[-1][0] + self.period_s

    def take(
        self,
        at_s: float,
        link_bytes: Mapping[str, int],
        now_bytes_per_s: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Add a sample: the links' bytes so far, and capacities that are not the stated ones."""
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
    """The samples in a ``network.jsonl``, if there is one; ``UsageError`` for what is none."""
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


# Circuits -----------------------------------------------------------------------------------------
class CircuitUse(NamedTuple):
    """A time for which a coflow had a circuit."""

    src: RackId
    dst: RackId
    coflow: str
    begin_s: float  #: when the coflow got the circuit
    lit_s: float | None  #: when it could send; None: it never could
    end_s: float  #: when it lost the circuit


class CircuitLog:
    """The uses of a run's circuits."""

    def __init__(self) -> None:
        self.left_out = 0  #: uses beyond those that are kept
        self._ended: list[CircuitUse] = []
        self._under_way: dict[int, CircuitUse] = {}  #: by circuit; without their end
        self._emulator = 0  #: how many emulators there were before that of the latest change

    def take(self, changes: Iterable[CircuitChange], offset_s: float = 0.0) -> None:
        """Record changes, in order; ``offset_s``: the record's clock minus the network's."""
        for change in changes:
            self._take(change, change.at_s + offset_s)

    def uses(self, now_s: float) -> list[CircuitUse]:
        """All that are kept, in the order in which they ended; those under way end now."""
        return self._ended + [use._replace(end_s=now_s) for use in self._under_way.values()]

    def _take(self, change: CircuitChange, at_s: float) -> None:
        number, coflow = change.circuit, change.coflow
        if number // CIRCUITS_OF_ONE > self._emulator:
            self._emulator = number // CIRCUITS_OF_ONE
            for known in self._under_way.values():  # of one that died
                self._keep(known._replace(end_s=at_s))
            self._under_way.clear()
        use = self._under_way.get(number)
        if use is not None and (change.what == "down" or coflow != use.coflow):
            del self._under_way[number]
            self._keep(use._replace(end_s=at_s))
            use = None
        if change.what == "down" or coflow is None:
            return
        lit_s = at_s if change.what == "up" else None
        if use is None:
            new = CircuitUse(change.src, change.dst, coflow, at_s, lit_s, at_s)
            self._under_way[number] = new
        elif use.lit_s is None:
            self._under_way[number] = use._replace(lit_s=lit_s)

    def _keep(self, use: CircuitUse) -> None:
        if use.end_s == use.begin_s:
            return  # changed its mind at once
        if len(self._ended) < USES_MAX:
            self._ended.append(use)
        else:
            self.left_out += 1


def circuit_rows(uses: Iterable[CircuitUse], left_out: int) -> list[dict[str, Any]]:
    """The rows for these uses; one more has the number of those left out, if any were."""
    rows: list[dict[str, Any]] = [{"type": "circuit", **use._asdict()} for use in uses]
    if left_out:
        rows.append({"type": "circuits-left-out", "count": left_out})
    return rows


def read_circuits(path: Path) -> list[CircuitUse]:
    """The uses in a ``network.jsonl``, if there is one; ``UsageError`` for what is none."""
    return read_rows(path, _use_of)


def _use_of(row: dict[str, Any]) -> CircuitUse | None:
    if row.get("type") != "circuit":
        return None
    return CircuitUse(**{name: row[name] for name in CircuitUse._fields})
