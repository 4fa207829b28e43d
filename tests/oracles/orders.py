"""Gives a fabric orders at the time that it has come to."""

from __future__ import annotations

from railyard.netemu.fabric.fabric import Fabric, Order, StartFlows
from railyard.netemu.model.flows import FlowSpec


def carry_out(fabric: Fabric, order: Order) -> None:
    """Have this order carried out now."""
    fabric.handle(order, fabric.now_s)


def open_flows(fabric: Fabric, *flows: FlowSpec) -> None:
    """Have these flows opened now, in this order."""
    carry_out(fabric, StartFlows(flows))
