"""``railyard reproduce`` and ``validation``: papers' experiments beside what papers say of them."""

from __future__ import annotations

from pathlib import Path

import click

from railyard.cluster.units import format_duration
from railyard.runs.outputfile import write_json, write_text
from railyard.runs.requests import ReproduceRequest
from railyard.terminal.options import Command, command, new_folder, option, writable_file


@command(
    ReproduceRequest,
    "paper figures wanted_seeds quick cases changed json_file results on",
    results=option(
        "--out",
        metavar="DIR",
        callback=new_folder,
        help="Write numbers and summaries of all runs to a new folder.",
    ),
)
def reproduce(request: ReproduceRequest) -> None:
    """Run a paper's experiments in virtual time and print each number beside the paper's.

    Without FIGURE all of them are run; what several of them need is run once.  Tables say what is
    smaller than in the paper.
    """
    from railyard.api.reproduction import reproduced
    from railyard.experiments.reproduction import show
    from railyard.runs.summary import require_figures

    done = reproduced(request)
    for name, figure in done.figures.items():
        show(figure, done.values[name], done.seeds[name])
    runs = sum(len(each) for each in done.found.values())
    click.echo(f"{runs} runs of {format_duration(done.cpu_s)} of CPU time in all")
    if request.json_file is not None:
        write_json(done.numbers, request.json_file)
    if request.results is not None:
        done.save(request.results)
    require_figures(done.summaries())


@click.command(cls=Command)
@click.argument(
    "folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--add",
    "added",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="First record the headlines of what railyard reproduce --json wrote; repeatable.",
)
@click.option(
    "--output", metavar="FILE", callback=writable_file, help="Write the page to this file."
)
def validation(folder: Path, added: tuple[Path, ...], output: Path | None) -> None:
    """Print published headlines beside the numbers that DIR has of ours, with verdicts.

    DIR has a file of records for each paper, which --add brings up to date.
    """
    from railyard.experiments.validation import page, record, rows

    for file in added:
        record(file, folder)
    text = page(list(rows(folder)))
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(text, output)
