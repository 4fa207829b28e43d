"""Settings "joint.*"."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from railyard.cluster.errors import require


class JointConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "joint.*"; the paper has none."""

    section: ClassVar[str] = "joint"

    #: jobs in execution at one time (IV-B, where the rate of deliveries is left open); None = any
    running_max: int | None = None
    #: a job is delivered while some server would let its first task wait for no longer than this,
    #: by what is queued there (IV-B, "the loads of the servers"); None = however long
    wait_max_s: float | None = None
    #: how long a task waits, where all servers are out of reach of some predecessor, for a flow to
    #: end; then its server is chosen as if no flow used the switches
    unreachable_wait_s: float = 0.0
    #: whether a task that is put beside its only predecessor may be moved until it starts (IV-C.1)
    virtual: bool = True
    #: whether a task is put on a server as soon as those of its predecessors are known (IV-C.2)
    aeap: bool = True

    def __post_init__(self) -> None:
        most = self.running_max
        right = "a whole number above 0"
        require(most is None or most > 0, f"{self.section}.running_max", most, right)
        longest_s = self.wait_max_s
        right = "seconds >= 0 (0 = while a server is idle)"
        ok = longest_s is None or longest_s >= 0
        require(ok, f"{self.section}.wait_max_s", longest_s, right)
        wait_s = self.unreachable_wait_s
        right = "seconds >= 0 (0 never waits)"
        require(wait_s >= 0, f"{self.section}.unreachable_wait_s", wait_s, right)
