"""What a circuit policy is: it decides which pairs of racks have circuits.

A rack's optical port has room for W circuits in each direction (one without wavelengths).  What a
coflow has to send from one rack to another is a pair; the large ones want circuits.  A policy is
asked whenever something has changed; in between, circuits stay as they are.  It must not know which
clock runs it.

Sunflow's choice is among the loops that may be compiled (``sunflow``).  Others derive from
``StatelessPolicy`` and have one method, which plain Python runs.  Another package adds one through
an entry point of the group "railyard.circuit_policies":

    [project.entry-points."railyard.circuit_policies"]
    mine = "my_package.my_module:MyPolicy"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.registry import Registry
from railyard.netemu.model.arrays import Floats, Numbers


@dataclass(frozen=True, slots=True)
class CoflowsOnCircuits:
    """What coflows have left to send by circuits, by port: [coflow, out or in, rack]."""

    port_bytes: Floats  #: bytes
    port_pairs: Numbers  #: pairs of racks
    circuit_bytes_per_s: Floats  #: of one wavelength of each port: [out or in, rack]
    delta_s: float  #: δ: seconds for which a port is dark while a circuit is set up
    wavelengths: int  #: W: circuits that a port has room for


@dataclass(frozen=True, slots=True)
class RackPair:
    """What a coflow has to send from one rack to another by circuit; racks are numbers."""

    number: int
    coflow: str  #: its name; of a flow without one, "flow " and the flow's
    src: int
    dst: int
    left_bytes: float  #: as of when coflows were last put in order
    has_circuit: bool


@dataclass(frozen=True, slots=True)
class CoflowPairs:
    """A coflow that wants circuits."""

    name: str
    arrived_s: float
    pairs: tuple[RackPair, ...]  #: those that have, or want, circuits


@dataclass(frozen=True, slots=True)
class Switch:
    """What a policy may know of the optical switch."""

    racks: tuple[str, ...]
    wavelengths: int
    delta_s: float


class CircuitPolicy(ABC):
    """Decides which pairs of racks have circuits."""

    name: ClassVar[str]
    source: ClassVar[str]  #: where it was published

    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        self.look_again_s = inf  #: when to ask again even if nothing happens

    def urgency(self, coflows: CoflowsOnCircuits) -> Floats:
        """[coflow]: coflows are ordered by this, ascending, then by arrival, then by name."""
        return np.zeros(len(coflows.port_bytes))


class StatelessPolicy(CircuitPolicy):
    """A policy that names the pairs that should have circuits each time: O(pairs) for a choice."""

    @abstractmethod
    def wanted(self, now_s: float, coflows: Sequence[CoflowPairs]) -> Iterable[RackPair]:
        """The pairs of these coflows, in order, to have circuits now: at most W at a port."""

    def choose(self, now_s: float, coflows: Sequence[CoflowPairs]) -> list[int]:
        """The numbers of the pairs wanted; ``InvariantError`` if the switch can't have these."""
        known = {pair for coflow in coflows for pair in coflow.pairs}
        wanted = list(dict.fromkeys(self.wanted(now_s, coflows)))
        used: Counter[str] = Counter()
        for pair in wanted:
            src, dst = self.switch.racks[pair.src], self.switch.racks[pair.dst]
            if pair not in known:
                raise InvariantError(f"{self.name} gave {src} to {dst} a circuit: it wants none")
            used.update((f"{src}.ocs.up", f"{dst}.ocs.down"))
        most = self.switch.wavelengths
        full = [f"{port} {count}" for port, count in used.items() if count > most]
        if full:
            raise InvariantError(f"{self.name} gave more circuits than {most} to {', '.join(full)}")
        return [pair.number for pair in wanted]


class SunflowCircuits(CircuitPolicy):
    """Circuits by ascending T(C)."""

    name = "sunflow"
    source = "Huang, Sun and Ng, Sunflow, CoNEXT 2016"

    def urgency(self, coflows: CoflowsOnCircuits) -> Floats:
        """T(C), equations 2 and 15 of Co-scheduler, from the sums at each port."""
        with np.errstate(divide="ignore", invalid="ignore"):
            needs_s = coflows.port_bytes / coflows.circuit_bytes_per_s
        if not coflows.circuit_bytes_per_s.all():
            needs_s[coflows.port_bytes == 0] = 0.0
        needs_s += coflows.port_pairs * coflows.delta_s
        ports_s = needs_s.reshape(len(needs_s), -1)
        longest: Floats = ports_s.max(axis=1) / coflows.wavelengths
        return longest


CIRCUIT_POLICIES: dict[str, type[CircuitPolicy]] = {SunflowCircuits.name: SunflowCircuits}


def _checked(kind: object) -> type[CircuitPolicy]:
    if not (isinstance(kind, type) and issubclass(kind, SunflowCircuits | StatelessPolicy)):
        raise TypeError(f"{kind!r}, no subclass of StatelessPolicy")
    return kind


_ALL = Registry("circuit policy", "railyard.circuit_policies", lambda: CIRCUIT_POLICIES, _checked)


def circuit_policy(name: str, switch: Switch) -> CircuitPolicy:
    """A new circuit policy of that name for a switch; ``UsageError`` if there is none."""
    return _ALL.named(name)(switch)
