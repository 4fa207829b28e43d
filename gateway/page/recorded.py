"""A run that has ended, of either clock, as the page shows it: from its events and its network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from railyard.cluster.errors import UsageError
from railyard.gateway.page.feed import Feed, Row
from railyard.gateway.page.head import head_of
from railyard.gateway.page.kept import Kept, circuit_row, links_row
from railyard.netemu.record.circuits import read_circuits
from railyard.netemu.record.links import read_samples
from railyard.resourcemanager.driving.eventlog import Diverged, read_log, replay_on
from railyard.resourcemanager.driving.makecore import core_for

#: A page of more would be slow.
ROWS_MAX = 500_000
#: How far jobs are is told so often over a run, but not more than every half second.
_LOOKS = 600
_PERIOD_S_MIN = 0.1


def recorded(events: Path, network: Path, **head: Any) -> Kept:
    """All that the page needs of a run; ``head`` goes into what it says of the run as a whole.

    ``network``: the record of its network, if it is there.  Raises ``UsageError`` for files that
    are not what they should be.
    """
    config, logged = read_log(events)
    every = list(logged)
    last_s = every[-1].at_s if every else 0.0
    kept = Kept(head_of(config, **({"live": False} | head)), ROWS_MAX)
    core = core_for(config)
    feed = Feed(core, max(_PERIOD_S_MIN, last_s / _LOOKS))
    try:
        for step in replay_on(core, events, every):
            feed.take(step)
    except Diverged as error:
        kept.take(feed.drain())
        kept.take([[0, "note", f"The run can only be shown up to here: {error}"]])
    kept.take(feed.drain())
    kept.take(_network_rows(network))
    return kept


def events_of(path: Path) -> Path:
    """The events of a run's folder; raises ``UsageError`` if it has none."""
    events = path / "events.jsonl" if path.is_dir() else path
    if not events.is_file():
        why = "need the folder that run or simulate wrote with --out, or its events.jsonl"
        raise UsageError(f"{path}: {why}")
    return events


def _network_rows(network: Path) -> list[Row]:
    rows = list(map(links_row, read_samples(network)))
    return rows + list(map(circuit_row, read_circuits(network)))
