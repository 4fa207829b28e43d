"""``railyard simulate`` of several runs: schedulers and seeds, side by side, spread over cores."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from railyard.cluster.tomlfile import build
from railyard.scripts.comparing.comparison import Comparison, Terms
from railyard.scripts.comparing.metrics import as_json, compared
from railyard.scripts.comparing.table import show
from railyard.scripts.results.outputfile import write_text
from railyard.scripts.terminal.options import as_number, new_folder
from railyard.simulator.nodes.behaviour import Behaviour


@dataclass(frozen=True, kw_only=True)
class Many:
    """What was typed; None and empty where nothing was."""

    workload: str
    schedulers: tuple[str, ...]
    flow_schedulers: tuple[str, ...]
    scheduler_options: tuple[tuple[str, str], ...]
    seed: int | None
    seeds: int
    size_bytes: int | None
    reduces: int | None
    first: int | None
    behaviour: tuple[tuple[str, str], ...]
    faults: str | None
    json_file: Path | None
    results: str | None
    topology: str | None
    network: tuple[tuple[str, str], ...]
    on: str | None


def simulate_many(wanted: Many) -> int:
    """Simulate all of them and tell the results; 1 if a job failed.

    With ``results``, a new folder has one for each run, with the page of a comparison.
    """
    settings = {key: as_number(value) for key, value in wanted.behaviour}
    first_seed = 1 if wanted.seed is None else wanted.seed
    folder = new_folder("--out", wanted.results)
    comparison = Comparison(
        Terms(
            words=(wanted.workload,),
            schedulers=wanted.schedulers,
            flow_schedulers=wanted.flow_schedulers,
            clocks=("virtual",),
            seeds=tuple(range(first_seed, first_seed + wanted.seeds)),
            size_bytes=wanted.size_bytes,
            reduces=wanted.reduces,
            scheduler_options=wanted.scheduler_options,
            topology=wanted.topology,
            network=wanted.network,
            on=wanted.on,
            behaviour=build(settings, Behaviour, "--behaviour"),
            faults=wanted.faults,
            first=wanted.first,
        ),
        folder,
    )
    rows = compared(comparison.run())
    show(rows, comparison.title)
    if wanted.json_file is not None:
        text = json.dumps(as_json(rows), indent=2)
        write_text(text + "\n", wanted.json_file)
    if folder is not None:
        from railyard.scripts.report.page import write_page

        write_page(folder, rows, comparison.told())
    return 0 if all(job["ok"] for row in rows for run in row.runs for job in run["jobs"]) else 1
