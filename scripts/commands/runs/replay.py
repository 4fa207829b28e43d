"""``railyard replay``: sends the events of a run, of either clock, to a fresh core."""

from __future__ import annotations

from pathlib import Path

import click

from railyard.scripts.results.folder import EVENTS, NETWORK
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.terminal.options import writable_file
from railyard.scripts.terminal.request import Command


@click.command(cls=Command)
@click.argument("folder", metavar="DIR")
@click.option("--trace", callback=writable_file, help="Write its trace for ui.perfetto.dev.")
def replay(folder: str, trace: Path | None) -> None:
    """Send the events of a run to a fresh core, and check that it gives the same commands.

    DIR is what run or simulate wrote with --out, or an events.jsonl file.
    """
    from railyard.cluster.shown import printable
    from railyard.cluster.units import format_count, format_duration
    from railyard.netemu.record.circuits import read_circuits
    from railyard.netemu.record.links import read_samples
    from railyard.resourcemanager.driving.eventlog import replay as steps_of
    from railyard.resourcemanager.driving.trace import chrome_trace

    path = Path(folder)
    if path.is_dir():
        path = path / EVENTS
    steps = list(steps_of(path))
    commands = sum(len(step.commands) for step in steps)
    took = format_duration(steps[-1].at_s if steps else 0.0)
    events = f"{format_count(len(steps), 'event')} in {took}"
    click.echo(
        f"{printable(str(path))}: {events}, {format_count(commands, 'command')}: the same as then"
    )
    if trace is not None:
        circuits = read_circuits(path.parent / NETWORK)
        samples = read_samples(path.parent / NETWORK)
        write_json(chrome_trace(steps, circuits, samples), trace, indent=None)
