"""The folder of a run, on either clock: its files' names, and the only place that writes them.

A simulation writes ``events.jsonl`` there as it goes on, an emulation's is copied from its cluster.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.cluster.runfolder import RunFolder
from railyard.netemu.model.flows import CircuitChange
from railyard.netemu.model.network import Network
from railyard.netemu.record import CircuitLog, CircuitUse, LinkLog, circuit_rows
from railyard.netemu.schedulers import flow_schedulers
from railyard.runs.outputfile import naming, write_json


class NetworkRecord:
    """Samples taken while a run goes on, written at its end.  Times are those of its events."""

    def __init__(self, config: ClusterConfig) -> None:
        network = Network(config.topology)
        #: whether there are circuits that are used
        self.has_circuits = bool(
            network.ports and flow_schedulers()[config.flow_scheduler].circuit_policy is not None
        )
        #: the links with recorded loads: all but the nodes'
        self.links = (*network.cross_rack, *(network.ports if self.has_circuits else ()))
        self.log = LinkLog()
        self._capacities = {
            name: float(network.capacities[network.number[name]]) for name in self.links
        }
        self._circuits = CircuitLog()
        self._until_s = 0.0

    def wants(self, at_s: float) -> bool:
        """Whether a sample of the links is due at this time."""
        return self.log.wants(at_s)

    def take_links(
        self,
        at_s: float,
        link_bytes: Mapping[str, int],
        capacities_bytes_per_s: Mapping[str, float],
    ) -> None:
        """Bytes that each link has carried since the start, and what links can carry now.

        Of the latter those that carry more or less than the topology says.  Links that are not
        recorded may be among both.
        """
        now = {name: rate for name, rate in capacities_bytes_per_s.items() if name in self.links}
        self.log.take(at_s, {name: link_bytes[name] for name in self.links}, now)
        self._until_s = at_s

    def take_circuits(self, changes: Sequence[CircuitChange], offset_s: float = 0.0) -> None:
        """Changes of circuits; ``offset_s``: the events' clock minus the network's."""
        self._circuits.take(changes, offset_s)

    def circuits(self) -> list[CircuitUse]:
        """The circuits up to the last sample of the links."""
        return self._circuits.uses(self._until_s)

    def write(self, file: Path) -> None:
        """Write it as JSON lines."""
        rows = circuit_rows(self.circuits(), self._circuits.left_out)
        self.log.write(file, self._capacities, rows)


# Files --------------------------------------------------------------------------------------------
SUMMARY = "summary.json"
EVENTS = "events.jsonl"
NETWORK = "network.jsonl"
TRACE = "trace.json"
ORIGIN = "origin.json"
PAGE = "index.html"
#: What each is, in the order in which people want them.
FILES = {
    SUMMARY: "the figures of the run and of its jobs, as --json writes them",
    TRACE: "who had which slot when, shuffles, links: open it at ui.perfetto.dev",
    EVENTS: "every event that the ResourceManager handled; railyard replay runs it again",
    NETWORK: "bytes that each link had carried, over time, and circuits",
    ORIGIN: "the command, the version, the date and the machine",
    "logs": "what the daemons logged",
    "attempts": "what the jobs' attempts wrote to standard error",
}


def save_logs(cluster: RunFolder, results: Path) -> None:
    """Write the logs of daemons and attempts to a new folder; raises ``NotWritten``."""
    with naming(results):
        results.mkdir()
        for name in ("logs", "attempts"):
            shutil.copytree(cluster.path / name, results / name)


def save_emulation(
    cluster: RunFolder, results: Path, summary: dict[str, Any], network: NetworkRecord
) -> None:
    """Write all that an emulated run leaves to a new folder; raises ``NotWritten``."""
    save_logs(cluster, results)
    with naming(results):
        shutil.copy(cluster.jobs / EVENTS, results)
    save_results(results, summary, network)


def save_results(results: Path, summary: dict[str, Any], network: NetworkRecord) -> None:
    """Write summary, network and trace beside the events; raises ``NotWritten``."""
    from railyard.resourcemanager.driving.eventlog import replay
    from railyard.resourcemanager.driving.trace import chrome_trace

    write_json(summary, results / SUMMARY)
    with naming(results):
        network.write(results / NETWORK)
    trace = chrome_trace(replay(results / EVENTS), network.circuits(), list(network.log.changes()))
    write_json(trace, results / TRACE, indent=None)
