"""``railyard explain``: why a task, job, flow, circuit or file of a run went where it did."""

from __future__ import annotations

import json
from pathlib import Path

import click

from railyard.cluster.errors import UsageError
from railyard.scripts.results.folder import EVENTS, NETWORK
from railyard.scripts.terminal.request import Command


@click.command(cls=Command)
@click.argument("run", metavar="DIR|cluster")
@click.argument("what", metavar="WHAT")
@click.option("--json", "json_file", metavar="FILE", help="Write it as JSON; - prints it.")
def explain(run: str, what: str, json_file: str | None) -> None:
    """Say why a task, job, flow, circuit or file of a run went where it did, or waited.

    DIR is what run or simulate wrote with --out, or an events.jsonl file; "cluster" is the cluster
    that is up.  WHAT is a task (j3.m7), an attempt (j3.m7.0), a job (j3), a coflow (j3.r), a flow
    (j3.r2.0:r0n1:0), the circuits from one rack to another (r0-r3), or a file (/in/data).

    The answers come from the run's events, replayed through the same scheduler.
    """
    import msgspec

    from railyard.netemu.record.circuits import read_circuits
    from railyard.resourcemanager.driving.explaining.explain import explain as explained
    from railyard.scripts.results.explained import lines_of
    from railyard.scripts.results.outputfile import write_json

    events = _events_of(run)
    network = events.parent / NETWORK
    circuits = read_circuits(network) if network.is_file() else None
    explanation = explained(events, what, circuits)
    if json_file is None:
        for line in lines_of(explanation):
            click.echo(line)
        return
    as_json = msgspec.to_builtins(explanation)
    if json_file == "-":
        click.echo(json.dumps(as_json, indent=2))
    else:
        write_json(as_json, Path(json_file))


def _events_of(run: str) -> Path:
    """The events of a run's folder, or of the cluster that is up."""
    if run == "cluster":
        from railyard.scripts.clusters.folders import current_folder

        folder = current_folder()
        if folder is None:
            raise UsageError("cluster: no cluster is up; need one, or the folder of a run")
        return folder.jobs / EVENTS
    path = Path(run)
    return path / EVENTS if path.is_dir() else path
