"""Requests that are carried out once, however often they are sent."""

from __future__ import annotations

from railyard.cluster.bounded import Name
from railyard.cluster.messaging.wire import Message


class OnceOnly(Message, frozen=True, kw_only=True):
    """A request that is sent again if the connection broke before its answer.

    The NameNode keeps the answers to the latest of them, over its restarts too, and answers one
    that comes again with the same token as it did before.
    """

    token: Name = ""  #: chosen by the sender, never used for another request; "" = none
