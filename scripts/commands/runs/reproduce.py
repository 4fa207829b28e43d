"""``railyard reproduce``: a paper's experiments, beside what the paper says of them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from railyard.cluster.errors import unknown_name
from railyard.scripts.results.outputfile import write_text
from railyard.scripts.terminal.options import COUNT, new_folder, settings, writable_file


@click.command()
@click.argument("paper_name", metavar="PAPER")
@click.argument("figure_names", nargs=-1, metavar="[FIGURE]...")
@click.option("--seeds", type=COUNT, metavar="N", help="Runs of each setup.")
@click.option("--quick", is_flag=True, help="A smaller version of each figure, for a first look.")
@click.option(
    "--set",
    "changed",
    metavar="KEY=VALUE",
    callback=settings,
    multiple=True,
    help="Another value for a setting of the schedulers, such as corral.imbalance=0; repeatable.",
)
@click.option("--json", "json_file", callback=writable_file, help="Write all numbers to this file.")
@click.option(
    "--out", "out", metavar="DIR", help="Write numbers and summaries of all runs to a new folder."
)
@click.option(
    "--on",
    metavar="dask:ADDRESS|ray:ADDRESS",
    help="Simulate there, rather than on this machine's cores.",
)
def reproduce(
    paper_name: str,
    figure_names: tuple[str, ...],
    seeds: int | None,
    quick: bool,
    changed: tuple[tuple[str, str], ...],
    json_file: Path | None,
    out: str | None,
    on: str | None,
) -> None:
    """Run a paper's experiments in virtual time and print each number beside the paper's.

    Without FIGURE all of them are run; what several of them need is run once.  Tables say what is
    smaller than in the paper.
    """
    from railyard.resourcemanager.schedulers import recipe_named
    from railyard.scripts.comparing.comparison import check_options
    from railyard.scripts.reproduce.papers import paper
    from railyard.scripts.reproduce.runs import carry_out, save
    from railyard.scripts.reproduce.table import show
    from railyard.scripts.reproduce.values import as_json, values

    folder = new_folder("--out", out)
    chosen = paper(paper_name)
    for name in figure_names:
        if name not in chosen.figures:
            raise unknown_name(f"figure of {paper_name}", name, chosen.figures)
    names = dict.fromkeys(figure_names or chosen.figures)
    figures = {name: chosen.figures[name](quick).with_settings(changed) for name in names}
    count = seeds or (chosen.quick_seeds if quick else chosen.seeds)
    setups = [setup for figure in figures.values() for setup in figure.setups()]
    schedulers = dict.fromkeys(setup.scheduler for setup in setups)
    check_options([recipe_named(name) for name in schedulers], changed)
    found = carry_out(setups, range(1, count + 1), on)
    told = {}
    for name, figure in figures.items():
        results = values(figure, found)
        show(figure, results, count)
        told[name] = as_json(figure, results)
    cpu_s = sum(summary["cpu_s"] for runs in found.values() for summary in runs)
    click.echo(f"{len(found) * count} runs of {cpu_s:.0f} s of CPU time in all")
    numbers = {
        "paper": paper_name,
        "title": chosen.title,
        "quick": quick,
        "seeds": count,
        "cpu_s": cpu_s,
        "figures": told,
    }
    text = json.dumps(numbers, indent=2) + "\n"
    if json_file is not None:
        write_text(text, json_file)
    if folder is not None:
        folder.mkdir()
        write_text(text, folder / "figures.json")
        save(found, folder / "runs")
