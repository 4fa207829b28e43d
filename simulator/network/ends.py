"""Which daemons hold the two ends of a flow: its bytes stand still while one of them is stopped.

The name of a flow says what it is for:

    j1.r0.0:r0n1:2   a fetch: the NodeManager of its source sends, an attempt receives
    read-3           a block: the DataNode of its source sends, an attempt receives
    write-3          a block: an attempt sends, the first DataNode of the pipeline receives
    copy-3           a block: one DataNode sends, another receives
"""

from __future__ import annotations

from railyard.cluster.ids import rack_of
from railyard.netemu.model.flows import FlowSpec

#: Begin of the names of daemons of which each rack has one.
NODE_MANAGER, DATA_NODE = "nodemanager-", "datanode-"
#: Part of the name of each fetch and of no other flow.
_OF_FETCHES = ":"
_READ, _WRITE = "read-", "write-"


def sender_of(spec: FlowSpec) -> str:
    """The process that sends a flow, and tells the network of it.

    It is a daemon, or an attempt that writes: that has the name of its only flow.
    """
    if _OF_FETCHES in spec.flow:
        return NODE_MANAGER + rack_of(spec.src)
    return spec.flow if spec.flow.startswith(_WRITE) else DATA_NODE + rack_of(spec.src)


def daemons_of(spec: FlowSpec) -> tuple[str, ...]:
    """The daemons that hold an end of a flow; an attempt reads its own node's disk by itself."""
    if _OF_FETCHES in spec.flow:
        return () if spec.src == spec.dst else (sender_of(spec),)
    if spec.flow.startswith(_READ):
        return (sender_of(spec),)
    receiver = DATA_NODE + rack_of(spec.dst)
    return (receiver,) if spec.flow.startswith(_WRITE) else (sender_of(spec), receiver)


def is_fetch(spec: FlowSpec) -> bool:
    """Whether a flow is one of a job's: the ResourceManager opens it."""
    return _OF_FETCHES in spec.flow
