"""The options that several commands share, and what their values become."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import COUNT_MAX, UsageError, require_name
from railyard.cluster.files.lasting import Durability
from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.units import number_or_text, parse_size
from railyard.jobs.model import REDUCES_MAX

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_TOPOLOGY = "hybrid-8x4"

#: Types of options: so many of something, a seed, the reduces of a job.
COUNT = click.IntRange(min=1, max=COUNT_MAX)
SEED = click.IntRange(min=0, max=2**63 - 1)
REDUCES = click.IntRange(min=1, max=REDUCES_MAX)


@dataclass(frozen=True, kw_only=True)
class ClusterChoice:
    """What a person said about the cluster; None where nothing was said."""

    topology: str | None
    network: tuple[tuple[str, str], ...]  #: figures of the topology to change
    scheduler: str | None
    flow_scheduler: str | None
    scheduler_options: tuple[tuple[str, str], ...]
    seed: int | None
    transport: Literal["ipc", "tcp"] | None
    durability: Durability | None = None

    def config(self) -> ClusterConfig:
        """The configuration of a new cluster; raises ``UsageError`` for what does not exist."""
        from railyard.netemu.schedulers import flow_scheduler
        from railyard.resourcemanager.interface.recipe import read_options
        from railyard.resourcemanager.schedulers import recipe_named

        recipe = recipe_named(self.scheduler or "fair")
        options = dict(self._options())
        read_options(recipe, options)
        return ClusterConfig(
            topology=load_topology(self.topology or DEFAULT_TOPOLOGY, self.network),
            scheduler=recipe.name,
            flow_scheduler=flow_scheduler(self.flow_scheduler or "maxmin").name,
            seed=1 if self.seed is None else self.seed,
            transport=self.transport or "ipc",
            durability=self.durability or "safe",
            scheduler_options=options,
        )

    def require_like(self, running: ClusterConfig) -> None:
        """Raise ``UsageError`` if something else was asked for than the cluster that is up has."""
        pairs = {
            "--scheduler": (self.scheduler, running.scheduler),
            "--flow-scheduler": (self.flow_scheduler, running.flow_scheduler),
            "--transport": (self.transport, running.transport),
            "--durability": (self.durability, running.durability),
        }
        for option, (wanted, has) in pairs.items():
            if wanted is not None and wanted != has:
                raise _another(option, wanted, has)
        self._require_topology_like(running.topology)
        for key, value in self._options():
            if running.scheduler_options.get(key) != value:
                raise UsageError(f"--set {key}={value}: the cluster that is up was started without")

    def _require_topology_like(self, running: Topology) -> None:
        if self.topology is None:
            changes = running.name.split(",")[1:]
            for key, value in self.network:
                if f"{key}={value}" not in changes:
                    raise _another("--network", f"{key}={value}", running.name)
        elif load_topology(self.topology, self.network) != running:
            wanted = ",".join([self.topology, *(f"{key}={value}" for key, value in self.network)])
            raise _another("--topology", wanted, running.name)

    def _options(self) -> Iterator[tuple[str, str | int | float | bool]]:
        return ((key, as_number(text)) for key, text in self.scheduler_options)


def _another(option: str, wanted: str, has: str) -> UsageError:
    right = "leave the option out, or railyard down first"
    return UsageError(f"{option} {wanted}: the cluster that is up has {has}; {right}")


def tell_of_missing_circuits(topology: Topology, flow_schedulers: Iterable[str]) -> None:
    """Say so on standard error if one of them is for circuits, and there are none."""
    from railyard.netemu.schedulers import FLOW_SCHEDULERS

    for name in flow_schedulers:
        if FLOW_SCHEDULERS[name].circuit_policy is not None and topology.ocs is None:
            right = "all goes by packets; --network ocs.port=100Gbps adds one"
            click.echo(f"{name}: {topology.name} has no optical switch: {right}", err=True)


def topology_options(command: F) -> F:
    """Add the options that say what the cluster and its network are like."""
    options = [
        click.option("--topology", metavar="NAME|FILE.toml", help="Default: hybrid-8x4."),
        click.option(
            "--network",
            metavar="KEY=VALUE",
            callback=settings,
            multiple=True,
            help="A figure of the topology to change: oversubscription=10, delta=1ms, "
            "elephant=1GB, wavelengths=4, ocs=off, background=0.5, or a key of its file such "
            "as rack.r3.uplink=1Gbps or racks.count=9; repeatable.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


#: What the block store's acknowledgements promise; see docs/durability.md.
durability_option = click.option(
    "--durability",
    type=click.Choice(["fast", "safe"]),
    help="safe (default): files are on the disk before they are acknowledged.  fast: they outlive "
    "any process, but not a power cut.",
)


def cluster_options(command: F) -> F:
    """Add the options that say what cluster to start; they arrive as ``choice``."""
    options = [
        click.option("--scheduler", metavar="NAME", help="Default: fair; railyard schedulers."),
        click.option("--flow-scheduler", metavar="NAME", help="Default: maxmin."),
        click.option(
            "--set",
            "scheduler_options",
            metavar="KEY=VALUE",
            callback=settings,
            multiple=True,
            help="A setting of the scheduler, such as delay.node_wait_s=3; repeatable.",
        ),
        click.option("--seed", type=SEED, help="Default: 1."),
        click.option(
            "--transport",
            type=click.Choice(["ipc", "tcp"]),
            help="How daemons talk: Unix-domain sockets (default) or TCP with CURVE keys.",
        ),
        durability_option,
    ]
    for option in reversed(options):
        command = option(command)
    return topology_options(command)


def as_number(text: str) -> str | int | float | bool:
    """A setting's text as the number or truth value that it looks like."""
    if text in ("true", "false"):
        return text == "true"
    return number_or_text(text)


def size(_: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """A size such as 10GB, in bytes."""
    return None if value is None else parse_size(value, option.opts[0])


def name(_: click.Context, option: click.Parameter, value: str) -> str:
    """What somebody or something is called."""
    require_name(option.opts[0], value)
    return value


def settings(
    _: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Each KEY=VALUE as a pair."""
    pairs = [(text, *text.partition("=")) for text in values]
    for text, key, equals, _value in pairs:
        if not (key and equals):
            raise UsageError(f"{option.opts[0]} {text}: need KEY=VALUE")
    return tuple((key, value) for _text, key, _equals, value in pairs)


def writable_file(_: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """Check before hours of work that the file they are for can be written."""
    if value is None:
        return None
    path = Path(value)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"{option.opts[0]} {value}: need a file in a folder that exists")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise UsageError(f"{option.opts[0]} {value}: need a place that you may write to")
    return path


def new_folder(option: str, path: str | None) -> Path | None:
    """A local path that nothing is at yet; raises ``UsageError`` if something is."""
    if path is None:
        return None
    if Path(path).exists() or not Path(path).absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: need a new folder in a folder that exists")
    if not os.access(Path(path).absolute().parent, os.W_OK):
        raise UsageError(f"{option} {path}: need a place that you may write to")
    return Path(path)
