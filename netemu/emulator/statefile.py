"""What the emulator keeps in a file, so that another can go on if its process dies.

Flows are not in it: those who send them say what they were granted.  It is replaced as a whole once
a second while flows are open, and before a change of a link is answered.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from railyard.cluster.ids import CoflowId
from railyard.netemu.messages import NetworkStats
from railyard.netemu.model.flows import CoflowPast

log = logging.getLogger(__name__)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a network beside its flows."""

    began_s: float  #: the network's 0 on the machine's monotonic clock
    restarts: int = 0  #: how many emulators there were before this one
    #: {link: bytes/s} of the links that people gave a capacity
    capacities: dict[str, float] = {}
    stats: NetworkStats | None = None
    pasts: dict[CoflowId, CoflowPast] = {}  #: of coflows


class StateFile:
    """The file of one network."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, now_s: float) -> State | None:
        """What the last emulator has written; None if there was none.

        Of a file that can't be read, nothing is known but that there was one.
        """
        try:
            return msgspec.msgpack.decode(self.path.read_bytes(), type=State)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            what = "links have the topology's capacities, and counters begin anew"
            log.error("%s: can't be read: %s: %s", self.path, error, what)
            return State(began_s=now_s, restarts=1)

    def write(self, state: State) -> None:
        """Put this in its place; ``OSError`` if it can't be written, and then it is as before."""
        new = self.path.with_suffix(".new")
        new.write_bytes(msgspec.msgpack.encode(state))
        new.replace(self.path)


def counted_before(state: State) -> NetworkStats | None:
    """The counters of a network whose flows have gone with its process.

    Those that are told anew are opened again, so they count as never opened.
    """
    stats = state.stats
    if stats is None:
        return None
    return msgspec.structs.replace(
        stats, flows_opened=stats.flows_finished + stats.flows_cancelled, flows_open=0
    )
