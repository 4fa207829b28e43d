"""The optical circuit switch: its circuits, and a log of their changes.

It has no clock and decides nothing: which pairs should have circuits is up to
``netemu.circuits.policies``.  A rack's port has room for W circuits in each direction (one without
wavelengths).  A circuit that is set up is dark for δ and then carries; only its own two ports wait
for it (not-all-stop).  It stays up when no pair uses it any more, until one of its ports is needed
for another, so that the next coflow between the same racks finds it lit.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import inf

from railyard.cluster.topology import Topology
from railyard.netemu.model.circuits import Change, CircuitChange, CircuitState
from railyard.netemu.model.openflows import Circuit, RackPairDemand

#: This many changes are kept; who reads them all must do so in time.
CHANGES_KEPT = 50_000

_Change = tuple[float, Change, int, int, str | None, int]


class OpticalSwitch:
    """The circuits of one topology.  Each order says what time it is; time never goes back."""

    def __init__(self, topology: Topology, *, has_log: bool = True) -> None:
        ocs = topology.ocs
        assert ocs is not None, "only topologies with circuits have a switch for them"
        self.racks = tuple(rack.id for rack in topology.rack_list())
        self.wavelengths = ocs.wavelengths
        self.delta_s = ocs.delta_s
        #: bytes/s of a circuit, by rack: a wavelength's share of the port; 0 if it has failed
        self.out_bytes_per_s = [ocs.port_bytes_per_s] * len(self.racks)
        self.in_bytes_per_s = [ocs.port_bytes_per_s] * len(self.racks)
        #: circuits at each port, unused ones included
        self.out: list[list[Circuit]] = [[] for _ in self.racks]
        self.into: list[list[Circuit]] = [[] for _ in self.racks]
        self._getting_ready: deque[Circuit] = deque()  #: in order, as δ is the same for all
        #: as ``CircuitChange`` has them, but for the racks' numbers
        self._changes: deque[_Change] = deque(maxlen=CHANGES_KEPT)
        self._changes_seen = 0  #: changes so far, those that were dropped included
        self.has_log = has_log
        self._circuits_made = 0

    # Orders --------------------------------------------------------------------------------------
    def spare(self, src: int, dst: int) -> Circuit | None:
        """The unused circuit between the two racks that is ready first, if there is one."""
        best: Circuit | None = None
        for circuit in self.out[src]:
            if (
                circuit.dst == dst
                and circuit.user is None
                and (best is None or circuit.ready_s < best.ready_s)
            ):
                best = circuit
        return best

    def connect(self, pair: RackPairDemand, now_s: float) -> Circuit:
        """Give a pair a circuit: a spare one, which may be lit, or a new one.

        Unused circuits are taken down to make room, the oldest first.
        """
        if self._getting_ready:
            self._note_ready(now_s)
        src, dst = pair.src, pair.dst
        out, into = self.out[src], self.into[dst]
        circuit = self.spare(src, dst) if out and into else None
        if circuit is not None:
            circuit.user = pair
        else:
            if len(out) >= self.wavelengths:
                self._make_room(out, now_s)
            if len(into) >= self.wavelengths:
                self._make_room(into, now_s)
            self._circuits_made += 1
            circuit = Circuit(src, dst, now_s + self.delta_s, pair, self._circuits_made)
            out.append(circuit)
            into.append(circuit)
            if self.has_log and self.delta_s:
                self._getting_ready.append(circuit)
        if self.has_log:
            self._append(now_s, "set-up" if circuit.ready_s > now_s else "up", circuit)
        return circuit

    def release(self, circuit: Circuit, now_s: float) -> None:
        """Note that no pair uses a circuit any more; it stays up."""
        if self._getting_ready:
            self._note_ready(now_s)
        circuit.user = None
        if self.has_log:
            self._append(now_s, "set-up" if circuit.ready_s > now_s else "up", circuit)

    def set_port(self, rack: int, bytes_per_s: float, now_s: float, *, is_out: bool) -> None:
        """Give a port another rate, of all its circuits together; 0 takes its circuits down."""
        self._note_ready(now_s)
        rates = self.out_bytes_per_s if is_out else self.in_bytes_per_s
        rates[rack] = bytes_per_s / self.wavelengths
        if bytes_per_s == 0:
            for circuit in list(self.out[rack] if is_out else self.into[rack]):
                self._take_down(circuit, now_s)

    def bytes_per_s(self, circuit: Circuit) -> float:
        """Bytes/s of a circuit once it is ready."""
        out, into = self.out_bytes_per_s[circuit.src], self.in_bytes_per_s[circuit.dst]
        return out if out < into else into

    # What can be seen -----------------------------------------------------------------------------
    def circuits(self) -> list[CircuitState]:
        """All circuits, by the rack that sends."""
        return [
            CircuitState(
                self.racks[c.src],
                self.racks[c.dst],
                None if c.user is None else c.user.demand.key,
                c.ready_s,
            )
            for port in self.out
            for c in port
        ]

    def next_ready_s(self, now_s: float) -> float:
        """When the first dark circuit will carry, in seconds; inf if none is dark."""
        return min((c.ready_s for port in self.out for c in port if c.ready_s > now_s), default=inf)

    def changes(self, now_s: float, after: int = 0) -> tuple[int, list[CircuitChange]]:
        """How many changes there have been in all, and those after the first ``after``, by time.

        At most the last ``CHANGES_KEPT``; none if the switch has no log.
        """
        self._note_ready(now_s)
        new, racks = max(self._changes_seen - after, 0), self.racks
        changes = [
            CircuitChange(at_s, what, racks[src], racks[dst], coflow, circuit)
            for at_s, what, src, dst, coflow, circuit in islice(reversed(self._changes), new)
        ]
        return self._changes_seen, changes[::-1]

    # Inside --------------------------------------------------------------------------------------
    def _make_room(self, port: list[Circuit], now_s: float) -> None:
        """Take down the oldest unused circuit at a port; there is one."""
        for circuit in port:
            if circuit.user is None:
                self._take_down(circuit, now_s)
                return

    def _take_down(self, circuit: Circuit, now_s: float) -> None:
        circuit.is_gone = True
        self.out[circuit.src].remove(circuit)
        self.into[circuit.dst].remove(circuit)
        if self.has_log:
            self._append(now_s, "down", circuit)

    def _note_ready(self, now_s: float) -> None:
        """Log the circuits that have become ready."""
        waiting = self._getting_ready
        while waiting and (waiting[0].is_gone or waiting[0].ready_s <= now_s):
            circuit = waiting.popleft()
            if not circuit.is_gone:
                self._append(circuit.ready_s, "up", circuit)

    def _append(self, at_s: float, what: Change, circuit: Circuit) -> None:
        self._changes_seen += 1
        user = circuit.user
        coflow = None if user is None else user.demand.key
        self._changes.append((at_s, what, circuit.src, circuit.dst, coflow, circuit.number))
