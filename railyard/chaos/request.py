"""The request of ``railyard chaos``: a job as ``railyard run`` takes it, and faults."""

from __future__ import annotations

from dataclasses import dataclass

import click
import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.faults import GROUPS, KINDS
from railyard.runs.requests import RunRequest
from railyard.terminal.options import COUNT, option

#: A shorter time gives no daemon the time to come back.
_EVERY_S_MIN = 0.05
_EVERY_S_MAX = 3600.0


@dataclass(frozen=True, kw_only=True)
class ChaosRequest(RunRequest):
    """Arguments and options of ``railyard chaos``."""

    kills: int = option(
        "--kills", type=COUNT, default=20, help="Faults of all kinds together; default: 20."
    )
    every_s: float = option(
        "--every",
        type=click.FloatRange(min=_EVERY_S_MIN, max=_EVERY_S_MAX),
        metavar="S",
        default=1.0,
        help="Seconds from one fault to the next, on average; default: 1.",
    )
    kinds: str = option(
        "--kinds",
        metavar="KIND,...",
        default="all",
        help=f"Of {', '.join((*GROUPS, *KINDS))}; kill: all that begin so. Default: all.",
    )

    def chosen_kinds(self) -> tuple[str, ...]:
        """The kinds of faults.  Raises ``UsageError`` for those that cannot be."""
        from railyard.chaos.plan import kinds_named, possible_kinds

        if self.restart == "never":
            raise UsageError("--restart never: need on-failure: what is killed is to come back")
        return kinds_named(self.kinds, possible_kinds(self.place))

    def cluster(self, kinds: tuple[str, ...]) -> ClusterConfig:
        """The cluster's configuration, with a gateway if one is to be killed."""
        port = 0 if "kill-gateway" in kinds else None  # 0: any that is free
        return msgspec.structs.replace(self.config(), http=port)
