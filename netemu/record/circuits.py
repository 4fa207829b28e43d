"""Which coflow used which circuit when: the record that pictures are made of.

Pure; the emulation and the simulator both feed one.  Its rows are in ``network.jsonl``, one for
each time that a coflow had a circuit:

    {"type": "circuit", "src": "r0", "dst": "r3", "coflow": "j1.r", "begin_s": 1.0, "lit_s": 1.01,
     "end_s": 2.5}

``begin_s``: when the coflow got the circuit; ``lit_s``: when it could send, which is ``begin_s``
where the circuit was lit already, and null where the coflow lost it dark; ``end_s``: when it lost
it.  A circuit that is up while no coflow uses it leaves no row.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from railyard.cluster.bounded import RackId
from railyard.netemu.model.circuits import CIRCUITS_OF_ONE, CircuitChange
from railyard.netemu.record.rows import read_rows

#: This many uses are kept of a run, and how many more there were.
USES_MAX = 50_000


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
            self._end_all(at_s)
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

    def _end_all(self, at_s: float) -> None:
        """End the uses of an emulator that died, when they are known to be over."""
        for use in self._under_way.values():
            self._keep(use._replace(end_s=at_s))
        self._under_way.clear()

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
    """The uses in a ``network.jsonl``; none if there is no such file.

    Raises ``UsageError`` for what is no such record.
    """
    return read_rows(path, _use_of)


def _use_of(row: dict[str, Any]) -> CircuitUse | None:
    if row.get("type") != "circuit":
        return None
    return CircuitUse(**{name: row[name] for name in CircuitUse._fields})
