"""A paper's experiments, run again: each number beside the published one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.api import arguments
from railyard.api.notebooks import data_frame, preformatted, printed
from railyard.cluster.errors import unknown_name
from railyard.experiments.figures import Figure, Setup
from railyard.experiments.papers import Paper
from railyard.experiments.papers import paper as paper_named
from railyard.experiments.reproduction import (
    Summaries,
    Value,
    as_json,
    carry_out,
    command_line,
    save,
    show,
    values,
)
from railyard.runs.config import require_known_options
from railyard.runs.origin import code_state
from railyard.runs.outputfile import write_json
from railyard.runs.requests import ReproduceRequest
from railyard.terminal.options import seeds_in_words

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reproduction:
    """The figures of a paper with our numbers; as text, what ``railyard reproduce`` prints."""

    paper: str
    seeds: Mapping[str, range]  #: by figure
    figures: Mapping[str, Figure]
    values: Mapping[str, Sequence[Value]]  #: by figure: a number for each of its lines
    numbers: dict[str, Any]  #: everything, as ``--json`` writes it
    found: Summaries  #: the summaries of all runs, by setup

    @property
    def cpu_s(self) -> float:
        """CPU time of all runs, in seconds."""
        return float(self.numbers["cpu_s"])

    def summaries(self) -> Iterator[dict[str, Any]]:
        """The summaries of all runs."""
        return (summary for runs in self.found.values() for summary in runs)

    def to_pandas(self) -> DataFrame:
        """A row for each number: ours and the paper's, in the row's ``unit``.

        ``ours`` is the mean over seeds, ``published_least`` and ``published_most`` are the ends of
        the paper's range, ``off_by`` is how far the mean lies outside of it.  Raises ``UsageError``
        if pandas is not installed.
        """
        return data_frame(
            {
                "figure": name,
                "case": line["case"],
                "subject": line["subject"],
                "measure": f"less {line['measure']}" if line["lessens"] else line["measure"],
                "unit": line["unit"],
                "ours": line["mean"],
                "ci95_half_width": line["ci95_half_width"],
                "published_least": (line["published"] or {}).get("least"),
                "published_most": (line["published"] or {}).get("most"),
                "off_by": line["off_by"],
                "own": line["own"],
                "base": line["base"],
                "coarse": line["coarse"],
            }
            for name, figure in self.numbers["figures"].items()
            for line in figure["lines"]
        )

    def save(self, folder: Path) -> None:
        """Write all numbers, and the summary of each run, to a new folder."""
        folder.mkdir()
        write_json(self.numbers, folder / "figures.json")
        save(self.found, folder / "runs")

    def __str__(self) -> str:
        def show_all() -> None:
            for name, figure in self.figures.items():
                show(figure, self.values[name], self.seeds[name])

        return printed(show_all)

    def __repr__(self) -> str:
        return f"<Reproduction of {self.paper}: {', '.join(self.figures)}>"

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def reproduce(
    paper: str,
    *figures: str,
    seeds: int | range | None = None,
    quick: bool = False,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: bool = False,
) -> Reproduction:
    """Run a paper's experiments in virtual time; without ``figures`` all of them.

    - ``paper``: "corral", "tetrium", "joint" and so on, as ``railyard reproduce`` takes them.
    - ``seeds``: how many runs of each setup, or which; default: those that were reported.
    - ``quick``: a smaller version of each figure.
    - ``settings``: other values for settings of the schedulers, such as {"corral.imbalance": 0}.
    - ``out``: a new folder for numbers and summaries.

    Raises ``UsageError`` for a paper or a figure that there is not.
    """
    with arguments.notices_as_warnings(progress=progress):
        request = ReproduceRequest(
            paper=paper,
            figures=figures,
            wanted_seeds=arguments.seeds_of(seeds),
            quick=quick,
            changed=arguments.text_pairs("settings", settings or {}),
            results=None if out is None else arguments.new_folder("out", out),
        )
        done = reproduced(request)
        if request.results is not None:
            done.save(request.results)
    return done


def reproduced(request: ReproduceRequest) -> Reproduction:
    """Carry out a request to run experiments again."""
    chosen = paper_named(request.paper)
    every = chosen.figures(request.quick)
    for name in request.figures:
        if name not in every:
            raise unknown_name(f"figure of {request.paper}", name, every)
    asked = {name: every[name] for name in request.figures or every}
    chosen_lines = {name: figure.only(request.cases) for name, figure in asked.items()}
    figures = {
        name: figure.with_settings(request.changed)
        for name, figure in chosen_lines.items()
        if figure.lines
    }
    if not figures:
        cases = [line.case for figure in asked.values() for line in figure.lines]
        raise unknown_name("case", " ".join(request.cases), dict.fromkeys(cases))
    seeds = {name: _seeds(request, chosen, name) for name in figures}
    wanted: dict[Setup, range] = {}
    for name, figure in figures.items():  # the seeds of all figures begin with the same one
        for setup in figure.setups():
            wanted[setup] = max(wanted.get(setup, range(0)), seeds[name], key=len)
    require_known_options(dict.fromkeys(setup.scheduler for setup in wanted), request.changed)
    code = code_state()
    found = carry_out(wanted, request.on)
    results = {
        name: values(figure, {each: found[each][: len(seeds[name])] for each in figure.setups()})
        for name, figure in figures.items()
    }
    most = max(seeds.values(), key=len)
    are_alike = all(each == most for each in seeds.values())
    numbers = {
        "paper": request.paper,
        "title": chosen.title,
        "quick": request.quick,
        "seeds": len(most),
        "seed_range": seeds_in_words(most),
        "command": command_line(request, seeds_in_words(most) if are_alike else None),
        "code": code,
        "cpu_s": sum(summary["cpu_s"] for runs in found.values() for summary in runs),
        "figures": {
            name: as_json(figure, results[name], seeds_in_words(seeds[name]))
            for name, figure in figures.items()
        },
    }
    return Reproduction(
        paper=request.paper,
        seeds=seeds,
        figures=figures,
        values=results,
        numbers=numbers,
        found=found,
    )


def _seeds(request: ReproduceRequest, chosen: Paper, figure: str) -> range:
    """The seeds of a figure.  A number of them begins with the first that the paper reports."""
    if isinstance(request.wanted_seeds, range):
        return request.wanted_seeds
    usual = chosen.seeds_of(request.quick, figure)
    return range(usual.start, usual.start + (request.wanted_seeds or len(usual)))
