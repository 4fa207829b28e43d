"""The folder of a run, on either clock: its files' names, and the only place that writes them.

A simulation writes ``events.jsonl`` there as it goes on, an emulation's is copied from its cluster.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from railyard.cluster.files.runfolder import RunFolder
from railyard.scripts.results.networkrecord import NetworkRecord
from railyard.scripts.results.outputfile import naming, write_json

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
