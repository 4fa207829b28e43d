"""The moves of flows that the circuit plane orders from the fabric."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from railyard.netemu.model.openflows import Flow, OnCircuit


@dataclass(frozen=True, slots=True)
class Detach:
    """Let flows send nothing for now."""

    flows: Collection[Flow]


@dataclass(frozen=True, slots=True)
class Attach:
    """Let flows, which send nothing, send through a circuit."""

    flows: Collection[Flow]
    group: OnCircuit


@dataclass(frozen=True, slots=True)
class SendByPackets:
    """Let flows, which send nothing, send by packets."""

    flows: Collection[Flow]


Move = Detach | Attach | SendByPackets
