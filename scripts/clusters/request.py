"""What requests have in common: a topology, a cluster to start, jobs and where results go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import click

from railyard.cluster.config import ClusterConfig, Restart
from railyard.cluster.errors import UsageError
from railyard.cluster.files.lasting import Durability
from railyard.cluster.topology import Topology, load_topology
from railyard.scripts.terminal.options import (
    REDUCES,
    SEED,
    Settings,
    TextPairs,
    durability_option,
    new_folder,
    restart_option,
    settings,
    size,
    text_pairs,
    writable_file,
)
from railyard.scripts.terminal.request import option

DEFAULT_TOPOLOGY = "hybrid-8x4"
DEFAULT_SIZE_BYTES = 10 * 10**9


@dataclass(frozen=True, kw_only=True)
class TopologyRequest:
    """The cluster and its network."""

    topology: str | None = option(
        "--topology", metavar="NAME|FILE.toml", help=f"Default: {DEFAULT_TOPOLOGY}."
    )
    network: TextPairs = option(
        "--network",
        metavar="KEY=VALUE",
        callback=text_pairs,
        multiple=True,
        help="A figure of the topology to change: oversubscription=10, delta=1ms, "
        "elephant=1GB, wavelengths=4, ocs=off, background=0.5, or a key of its file such "
        "as racks.count=9, or a link: r3.up=1Gbps, Tokyo.down=50Mbps; repeatable.",
    )

    @cached_property
    def place(self) -> Topology:
        """The topology with its changes; raises ``UsageError`` when it is first asked for."""
        return load_topology(self.topology or DEFAULT_TOPOLOGY, self.network)


@dataclass(frozen=True, kw_only=True)
class InputRequest(TopologyRequest):
    """What jobs read, and a file for the results."""

    size_bytes: int | None = option(
        "--size", callback=size, help="Input to generate for each job; default: 10GB."
    )
    reduces: int | None = option(
        "--reduces",
        type=REDUCES,
        help="Reduces of each job; default: one per block of its input (a job of a mix: two "
        "blocks), at most half of the slots.",
    )
    inputs: tuple[str, ...] = option(
        "--input",
        multiple=True,
        metavar="FILE",
        help="What jobs read that say nothing else: a local file, a folder, a pattern such as "
        "'texts/*.txt', or dfs:/PATH of the cluster that is up, also a list or pattern of these "
        "(dfs:/a,/b or 'dfs:/logs/*'); orders=FILE for a job that names its inputs.  Repeatable.",
    )
    json_file: Path | None = option(
        "--json", callback=writable_file, help="Write the results as JSON to this file."
    )

    @property
    def input_bytes(self) -> int:
        """Input of each job, in the model's bytes."""
        return DEFAULT_SIZE_BYTES if self.size_bytes is None else self.size_bytes


@dataclass(frozen=True, kw_only=True)
class JobsRequest(InputRequest):
    """Jobs, and where their results go."""

    results: Path | None = option(
        "--out",
        metavar="DIR",
        callback=new_folder,
        help="Write everything to a new folder: summaries, events, traces, logs, and the page of "
        "a comparison.",
    )


@dataclass(frozen=True, kw_only=True)
class ClusterRequest(TopologyRequest):
    """A cluster of real processes; None where nothing was typed."""

    scheduler: str | None = option(
        "--scheduler",
        metavar="NAME",
        help='Default: fair; railyard schedulers lists them.  "delay + sjf" names a flow '
        "scheduler, too.",
    )
    flow_scheduler: str | None = option(
        "--flow-scheduler",
        metavar="NAME",
        help="Default: the one that the scheduler goes with, mostly maxmin.",
    )
    scheduler_options: Settings = option(
        "--set",
        metavar="KEY=VALUE",
        callback=settings,
        multiple=True,
        help="A setting of the scheduler, such as delay.node_wait_s=3; repeatable.",
    )
    seed: int | None = option("--seed", type=SEED, help="Default: 1.")
    transport: Literal["ipc", "tcp"] | None = option(
        "--transport",
        type=click.Choice(["ipc", "tcp"]),
        help="How daemons talk: Unix-domain sockets (default) or TCP with CURVE keys.",
    )
    durability: Durability | None = durability_option()
    restart: Restart | None = restart_option()

    def config(self) -> ClusterConfig:
        """The configuration of a new cluster; raises ``UsageError`` for what does not exist."""
        from railyard.scripts.clusters.config import cluster_config, warn_of_idle_priorities
        from railyard.scripts.clusters.pairs import pair_of

        pair = pair_of(self.scheduler or "fair", self.flow_scheduler)
        warn_of_idle_priorities([pair])
        return cluster_config(
            self.place,
            pair=pair,
            options=self.scheduler_options,
            seed=1 if self.seed is None else self.seed,
            transport=self.transport or "ipc",
            durability=self.durability,
            restart=self.restart,
        )

    def require_like(self, running: ClusterConfig) -> None:
        """Raise ``UsageError`` if what was typed differs from the cluster that is up."""
        scheduler, flows = self._typed()
        pairs = {
            "--scheduler": (scheduler, running.scheduler),
            "--flow-scheduler": (flows, running.flow_scheduler),
            "--transport": (self.transport, running.transport),
            "--durability": (self.durability, running.durability),
            "--restart": (self.restart, running.restart),
        }
        for name, (wanted, has) in pairs.items():
            if wanted is not None and wanted != has:
                raise _another(name, wanted, has)
        self._require_topology_like(running.topology)
        for key, value in self.scheduler_options:
            if running.scheduler_options.get(key) != value:
                raise UsageError(f"--set {key}={value}: the cluster that is up was started without")

    def _typed(self) -> tuple[str | None, str | None]:
        """The scheduler and the flow scheduler that were typed; None where neither was."""
        from railyard.scripts.clusters.pairs import pair_of, typed_pair

        if self.scheduler is None:
            return None, self.flow_scheduler
        if self.flow_scheduler is None:
            return typed_pair(self.scheduler)
        return pair_of(self.scheduler, self.flow_scheduler)

    def _require_topology_like(self, running: Topology) -> None:
        if self.topology is None:
            changes = running.name.split(",")[1:]
            for key, value in self.network:
                if f"{key}={value}" not in changes:
                    raise _another("--network", f"{key}={value}", running.name)
        elif self.place != running:
            wanted = ",".join([self.topology, *(f"{key}={value}" for key, value in self.network)])
            raise _another("--topology", wanted, running.name)


def _another(name: str, wanted: str, has: str) -> UsageError:
    right = "leave the option out, or railyard down first"
    return UsageError(f"{name} {wanted}: the cluster that is up has {has}; {right}")
