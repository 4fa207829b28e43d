"""The moves of flows that the circuit plane orders from the fabric."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from railyard.netemu.model.openflows import CircuitCarrier, Flow


class Detach(msgspec.Struct, frozen=True, gc=False):
    """Let flows send nothing for now."""

    flows: Collection[Flow]


class Attach(msgspec.Struct, frozen=True, gc=False):
    """Let flows, which send nothing, send through circuits; their group must be filled then."""

    flows: Collection[Flow]
    group: CircuitCarrier


class SendByPackets(msgspec.Struct, frozen=True, gc=False):
    """Let flows, which send nothing, send by packets."""

    flows: Collection[Flow]


Move = Detach | Attach | SendByPackets
