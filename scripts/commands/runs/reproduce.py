"""``railyard reproduce``: a paper's experiments, beside what the paper says of them."""

from __future__ import annotations

import click

from railyard.cluster.units import format_duration
from railyard.scripts.reproduce.request import ReproduceRequest
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.terminal.request import command


@command(ReproduceRequest)
def reproduce(request: ReproduceRequest) -> None:
    """Run a paper's experiments in virtual time and print each number beside the paper's.

    Without FIGURE all of them are run; what several of them need is run once.  Tables say what is
    smaller than in the paper.
    """
    from railyard.scripts.api.reproduction import reproduced
    from railyard.scripts.reproduce.table import show
    from railyard.scripts.results.summary import require_figures

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
