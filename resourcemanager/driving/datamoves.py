"""Moves of blocks, between the core and the block store; the same on both clocks.

Never here: which block goes where.
"""

from __future__ import annotations

from railyard.cluster.messaging.wire import Refusal
from railyard.dfs.messages.files import MoveReplica, ReplicaMoved
from railyard.resourcemanager.interface.commands import MoveBlock
from railyard.resourcemanager.interface.events import InputMoved, InputNotMoved


def move_request(order: MoveBlock) -> MoveReplica:
    """The NameNode's message for a command of the core."""
    return MoveReplica(path=order.path, number=order.block, target=order.node, source=order.source)


def move_ended(order: MoveBlock, answer: ReplicaMoved | Refusal) -> InputMoved | InputNotMoved:
    """The core's event for the NameNode's answer."""
    if isinstance(answer, ReplicaMoved):
        return InputMoved(path=order.path, block=order.block, nodes=answer.nodes)
    return InputNotMoved(path=order.path, block=order.block, reason=answer.reason)
