"""The page of a comparison: one HTML file that needs nothing else, and its pictures as files.

Each of its runs has a page, too, in its own folder.

What was run, what differs, the table, whether the clocks agree, then the pictures: completion
times of all seeds; slots, circuits and links of each contender's first seed, on one time scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from railyard.cluster.units import Unit, format_count, format_duration
from railyard.experiments.contenders import (
    CLOCK_WORDS,
    Contender,
    Row,
    counted,
    metrics_of,
    own_figures,
    unit_of,
)
from railyard.experiments.statements import Statements, Verdict, agreements, statements
from railyard.gateway.page.theme import LIGHT
from railyard.report.pictures import Draw, completion_panels, draw_cdf, draw_run, render
from railyard.report.recordedrun import Results
from railyard.report.runpage import (
    DRAWN_MAX,
    WORK_MAX,
    curve_data,
    embedded,
    job_table,
    reasons_elsewhere,
    run_data,
    write_html,
    write_run_page,
)
from railyard.runs.figures import Metric, fidelity_words, is_trusted
from railyard.runs.folder import ORIGIN, PAGE, Origin, origin_now, write_json

#: Classes of the page's style sheet.
_STYLES = {Verdict.BETTER: "good", Verdict.WORSE: "bad", Verdict.UNTRUSTED: "doubt"}
_DIFFERENCES = (Verdict.BETTER, Verdict.WORSE)


def write_page(folder: Path, rows: Sequence[Row], about: Mapping[str, Any]) -> None:
    """Write ``index.html`` and ``plots/`` into a comparison's folder, and a page into each run's.

    ``about`` is what ``Comparison.described`` says of its runs.
    """
    origin = origin_now()
    write_json(asdict(origin), folder / ORIGIN)
    _write_run_pages(rows, about, origin)
    plots = folder / "plots"
    plots.mkdir(exist_ok=True)
    metrics, said = metrics_of(rows), statements(rows)
    jobs = rows[0].runs[0]["jobs"]
    values = {
        "about": about,
        "title": _listed(list(dict.fromkeys(row.label for row in rows))),
        "clocks": list(dict.fromkeys(row.clock for row in rows)),
        "seeds": [(CLOCK_WORDS[clock], seeds) for clock, seeds in about["seeds"].items()],
        "several": max(len(row.runs) for row in rows) > 1,
        "said": _statements(rows, said),
        "rule": said.rule(),
        "first": rows[0].label,
        "headings": [(metric.title, unit_of(metric, rows).name) for metric in metrics],
        "table": [
            _line(row, {metric: unit_of(metric, rows) for metric in metrics}, said) for row in rows
        ],
        "agreements": [
            (who, list(same))
            for who, same in groupby(agreements(rows), key=lambda one: one.row.label)
        ],
        "own": [
            (same[0].row.label, same[0].row.clock, same[0].row.flaw, same)
            for _, of in groupby(own_figures(rows), key=lambda one: one.row.contender)
            for same in [list(of)]
        ],
        "simulations": len(rows[0].twins[0].others) if rows[0].twins else 0,
        "completion": embedded(_completion(plots, rows)),
        "origin": list(origin.rows()),
        "runs": list(_runs(plots, rows, about["folders"])),
        "count": format_count(len(jobs), "job"),
        "jobs": job_table(jobs, times=False),
        "counters": [(one.who, one.name, one.text()) for one in counted(rows)],
        "fidelity": _fidelity(rows),
    }
    write_html("comparison.html", folder / PAGE, values)


def _line(row: Row, units: Mapping[Metric, Unit], said: Statements) -> dict[str, Any]:
    of = said.of(row.contender)
    cells = []
    for metric, unit in units.items():
        cell, one = row.cells[metric.key], of.get(metric.key)
        spread = None if cell is None else cell.half_width
        cells.append(
            {
                "value": "-" if cell is None else unit.digits(cell.mean),
                "within": "" if spread is None else f"± {unit.digits(spread)}",
                "change": "" if one is None else f"{one.amount()} {one.verdict.mark}",
                "interval": "" if one is None else one.interval(),
                "style": "" if one is None else _STYLES.get(one.verdict, ""),
            }
        )
    return {
        "label": row.label,
        "colour": row.colour % len(LIGHT.colours),
        "clock": row.clock,
        "cells": cells,
        "verified": [run["verified"] for run in row.runs],
        "flaw": row.flaw,
    }


def _statements(rows: Sequence[Row], said: Statements) -> list[dict[str, Any]]:
    """The statements, contender by contender: those that are sure, then the others."""
    return [
        {
            "who": row.label,
            "clock": row.clock,
            "sure": [
                (one.words, _STYLES[one.verdict]) for one in of if one.verdict in _DIFFERENCES
            ],
            "others": [one.words for one in of if one.verdict not in _DIFFERENCES],
        }
        for row in rows
        if (of := list(said.of(row.contender).values()))
    ]


def _write_run_pages(rows: Sequence[Row], about: Mapping[str, Any], origin: Origin) -> None:
    """Write the page of each run; all together may explain twice as much as a single one."""
    work_max = 2 * WORK_MAX // sum(len(row.runs) for row in rows)
    for row in rows:
        for run in row.runs:
            folder = about["folders"][row.contender, run["seed"]]
            write_run_page(folder, run, about["place"], origin, min(WORK_MAX, work_max))


# Pictures ----------------------------------------------------------------------------------------
def _plot(plots: Path, name: str, draw: Draw) -> None:
    """Draw a picture as files, for papers and slides."""
    for kind in ("svg", "png"):
        (plots / f"{name}.{kind}").write_bytes(render(draw, LIGHT, kind))


def _completion(plots: Path, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Draw the distributions of completion times; returns their data for the page."""
    panels = completion_panels(rows)
    _plot(plots, "completion-times", partial(draw_cdf, panels))
    return [{"title": title, "curves": list(map(curve_data, of))} for title, of in panels]


def _runs(
    plots: Path,
    rows: Sequence[Row],
    folders: Mapping[tuple[Contender, int], Path],
) -> Iterator[dict[str, Any]]:
    """Draw slots and links of each contender's first seed; returns their data for the page."""
    until_s = max(row.runs[0]["makespan_s"] for row in rows) or 1.0
    for row in rows:
        summary, contender = row.runs[0], row.contender
        results = Results(folders[contender, summary["seed"]], summary)
        name = f"{contender.scheduler}-{contender.flow_scheduler}-{contender.clock}"
        _plot(plots, f"run-{name}", partial(draw_run, results, until_s))
        yield {
            "label": row.label,
            "clock": row.clock,
            "colour": row.colour % len(LIGHT.colours),
            "makespan": format_duration(summary["makespan_s"]),
            "flaw": row.flaw,
            "pages": [
                (run["seed"], f"{folders[contender, run['seed']].name}/{PAGE}") for run in row.runs
            ],
            "data": embedded(
                run_data(results, until_s, DRAWN_MAX // len(rows))
                | {"why": reasons_elsewhere(results)}
            ),
        }


# Words -------------------------------------------------------------------------------------------
def _fidelity(rows: Sequence[Row]) -> str:
    """A sentence about the worst fidelity of the emulated runs; "" if there are none."""
    runs = [run for row in rows for run in row.runs if "fidelity" in run]
    if not runs:
        return ""
    keys = ("grant_lag_ms_p99", "cpu_saturated", "network_away_s")
    worst = {key: max(run["fidelity"].get(key, 0.0) for run in runs) for key in keys}
    words = f"In the worst run: {fidelity_words(worst)}"
    return words if all(map(is_trusted, runs)) else f"{words}: too busy for times to be trusted"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
