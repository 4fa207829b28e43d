"""``railyard reproduce``: a paper's experiments, beside what the paper says of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from railyard.cluster.errors import unknown_name
from railyard.cluster.units import format_duration
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.simulating.workers import Workers, on_option
from railyard.scripts.terminal.options import (
    TextPairs,
    new_folder,
    seed_range,
    seeds_in_words,
    text_pairs,
    writable_file,
)
from railyard.scripts.terminal.request import argument, command, option

if TYPE_CHECKING:
    from railyard.scripts.reproduce.figures import Paper


@dataclass(frozen=True, kw_only=True)
class ReproduceRequest:
    """Arguments and options of ``railyard reproduce``."""

    paper: str = argument(required=True, metavar="PAPER")
    figures: tuple[str, ...] = argument(nargs=-1, metavar="[FIGURE]...")
    seeds: int | range | None = option(
        "--seeds",
        metavar="N|A-B",
        callback=seed_range,
        help="Runs of each setup: N of them, or those with seeds A to B.  Seeds before the usual "
        "ones were used to choose what a paper leaves open.",
    )
    quick: bool = option(
        "--quick", is_flag=True, help="A smaller version of each figure, for a first look."
    )
    changed: TextPairs = option(
        "--set",
        metavar="KEY=VALUE",
        callback=text_pairs,
        multiple=True,
        help="Another value for a setting of the schedulers, such as corral.imbalance=0; "
        "repeatable.",
    )
    json_file: Path | None = option(
        "--json", callback=writable_file, help="Write all numbers to this file."
    )
    results: Path | None = option(
        "--out",
        metavar="DIR",
        callback=new_folder,
        help="Write numbers and summaries of all runs to a new folder.",
    )
    on: Workers | None = on_option()


@command(ReproduceRequest)
def reproduce(request: ReproduceRequest) -> None:
    """Run a paper's experiments in virtual time and print each number beside the paper's.

    Without FIGURE all of them are run; what several of them need is run once.  Tables say what is
    smaller than in the paper.
    """
    from railyard.scripts.clusters.config import require_known_options
    from railyard.scripts.reproduce.commandline import command_line
    from railyard.scripts.reproduce.papers import paper
    from railyard.scripts.reproduce.runs import carry_out, save
    from railyard.scripts.reproduce.table import show
    from railyard.scripts.reproduce.values import as_json, values
    from railyard.scripts.results.origin import code_state
    from railyard.scripts.results.summary import require_figures

    chosen = paper(request.paper)
    for name in request.figures:
        if name not in chosen.figures:
            raise unknown_name(f"figure of {request.paper}", name, chosen.figures)
    figures = {
        name: chosen.figures[name](request.quick).with_settings(request.changed)
        for name in dict.fromkeys(request.figures or chosen.figures)
    }
    seeds = _seeds(request, chosen)
    setups = [setup for figure in figures.values() for setup in figure.setups()]
    require_known_options(dict.fromkeys(setup.scheduler for setup in setups), request.changed)
    code = code_state()
    found = carry_out(setups, seeds, request.on)
    shown = {}
    for name, figure in figures.items():
        results = values(figure, found)
        show(figure, results, seeds)
        shown[name] = as_json(figure, results)
    cpu_s = sum(summary["cpu_s"] for runs in found.values() for summary in runs)
    click.echo(f"{len(found) * len(seeds)} runs of {format_duration(cpu_s)} of CPU time in all")
    numbers = {
        "paper": request.paper,
        "title": chosen.title,
        "quick": request.quick,
        "seeds": len(seeds),
        "seed_range": seeds_in_words(seeds),
        "command": command_line(
            request.paper,
            request.figures,
            quick=request.quick,
            seeds=seeds_in_words(seeds),
            changed=request.changed,
        ),
        "code": code,
        "cpu_s": cpu_s,
        "figures": shown,
    }
    if request.json_file is not None:
        write_json(numbers, request.json_file)
    if request.results is not None:
        request.results.mkdir()
        write_json(numbers, request.results / "figures.json")
        save(found, request.results / "runs")
    require_figures(summary for runs in found.values() for summary in runs)


def _seeds(request: ReproduceRequest, chosen: Paper) -> range:
    """The seeds of each run.  A number of them begins with the first that the paper reports."""
    if isinstance(request.seeds, range):
        return request.seeds
    usual = chosen.seeds_of(request.quick)
    return range(usual.start, usual.start + (request.seeds or len(usual)))
