"""The page of one run, on either clock, as a single file: its origin, figures, pictures and jobs.

A page fetches nothing: it has the style sheet and the parts of ``gateway.page`` that draw in
browsers, which the live page uses, too, and their data as JSON.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from heapq import nlargest
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from railyard.cluster.errors import RailyardError, printable
from railyard.cluster.ids import AttemptId, NodeId, rack_of, task_of
from railyard.cluster.topology import Topology
from railyard.cluster.units import NO_UNIT, Unit, format_count, format_duration, format_number
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
from railyard.gateway.page.theme import LIGHT, script, style
from railyard.netemu.record import CircuitUse
from railyard.report.explanation import lines_of
from railyard.report.pictures import Curve, Draw, completion_panels, draw_cdf, draw_run, render
from railyard.report.recordedrun import Attempt, LinkLoads, Reservation, Results, natural
from railyard.resourcemanager.driving.explain import explain_several
from railyard.runs.figures import (
    METRICS,
    Metric,
    Summary,
    fidelity_words,
    figure_unit,
    figure_words,
    is_trusted,
    moved_words,
    own_counters,
)
from railyard.runs.folder import (
    EVENTS,
    FILES,
    ORIGIN,
    PAGE,
    Origin,
    origin_now,
    write_json,
    write_text,
)
from railyard.runs.summary import JOB_COLUMNS, after_the_first, attempts_of, schedulers_of


def write_html(template: str, file: Path, values: Mapping[str, Any]) -> None:
    """Write a page from one of ``templates/``; raises ``NotWritten``.

    Values that are text are escaped; ``embedded`` makes those that stand in a script.
    """
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=readable,
    )
    common = {"style": Markup(style()), "script": Markup(script("curves.js", "page.js"))}
    write_text(environment.get_template(template).render(common | dict(values)), file)


def embedded(data: Any) -> Any:
    """Data as JSON that can stand in a page's script element."""
    from markupsafe import Markup

    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def readable(value: Any) -> Any:
    """A value for the page: text loses control characters, HTML stays as it is."""
    return printable(value) if type(value) is str else value


# Jobs and what they counted -----------------------------------------------------------------------
#: Rows of counters of a page; ``summary.json`` has all.
_COUNTERS_MAX = 200


def job_table(jobs: Sequence[Summary], *, times: bool = True) -> dict[str, Any]:
    """Headings with their units, and a row for each job; ``times``: with those that they took."""
    headings, cells = [], []
    for key, column in JOB_COLUMNS.items():
        if not times and key in ("jct_s", "cct_s"):
            continue
        values = [job[key] for job in after_the_first(jobs)]
        known = [value for value in values if value is not None]
        unit = column.unit(max(known)) if known and column.unit else NO_UNIT
        after = " after" if key == "after_s" else ""
        headings.append((f"{column.heading}{after}", unit.name))
        cells.append(["-" if value is None else unit.digits(value) for value in values])
    return {
        "headings": headings,
        "rows": [
            {
                "name": job["name"],
                "id": job["id"],
                "ok": job["ok"],
                "cells": [column[number] for column in cells],
                "tasks": f"{format_count(job['maps'], 'map')}, "
                f"{format_count(job['reduces'], 'reduce')}",
            }
            for number, job in enumerate(jobs)
        ],
    }


def counter_rows(jobs: Sequence[Summary]) -> list[tuple[str, str, str]]:
    """What the jobs' own code counted: job, counter, count."""
    found = [
        (job["name"], name, format_number(count))
        for job in jobs
        for name, count in own_counters(job).items()
    ]
    return found[:_COUNTERS_MAX]


# Data for the parts that draw: columns; seconds since the first submission ------------------------
#: Attempts, and circuits, of a page.  Of more, the longest are drawn.
DRAWN_MAX = 40_000
#: Columns of the links' loads.
_COLUMNS = 480
#: Phases by their letters in a page's data.
_PHASES = {"start": "t", "read": "r", "shuffle": "f", "compute": "c", "sort, write": "w"}
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
S = TypeVar("S", Attempt, Reservation, CircuitUse)


def run_data(results: Results, until_s: float, drawn_max: int = DRAWN_MAX) -> dict[str, Any]:
    """The data of one run; ``until_s``: where the time axis ends."""
    jobs = results.summary["jobs"]
    number = {job["name"]: n for n, job in enumerate(jobs)}
    nodes = {node: n for n, node in enumerate(results.nodes)}
    held = _longest(results.attempts, drawn_max)
    waiting = _longest(results.reservations, drawn_max)
    loads = results.loads(_COLUMNS)
    return {
        "until_s": _ms(until_s),
        "makespan_s": _ms(results.makespan_s),
        "jobs": [
            {
                "id": job["id"],
                "name": job["name"],
                "begin_s": _ms(job["submitted_s"] - results.begin_s),
                "end_s": None
                if job["finished_s"] is None
                else _ms(job["finished_s"] - results.begin_s),
                "ok": job["ok"],
            }
            for job in jobs
        ],
        "nodes": {
            "name": list(nodes),
            "rack": [rack_of(NodeId(node)) for node in nodes],
            "slots": list(results.nodes.values()),
        },
        "left_out": len(results.attempts) - len(held),
        "attempts": {
            "name": [one.attempt for one in held],
            "node": [nodes[one.node] for one in held],
            "lane": [one.lane for one in held],
            "job": [number[one.job] for one in held],
            "stage": [0 if one.first_stage else 1 for one in held],
            "outcome": [one.outcome for one in held],
            "locality": [one.locality for one in held],
            "phases": [
                [[_PHASES[name], _ms(length_s)] for name, length_s in one.phases_s.items()]
                for one in held
            ],
            **_times(held),
        },
        "waiting": {"job": [number[one.job] for one in waiting], **_times(waiting)},
        "circuits": _circuits(results, drawn_max),
        "links": None if loads is None else _links(loads),
    }


def curve_data(curve: Curve) -> dict[str, Any]:
    """A curve of a distribution of times."""
    return {
        "label": curve.label,
        "style": f"s{curve.colour % len(LIGHT.colours)}",
        "dashed": curve.dashed,
        "times_s": [float(f"{seconds:.5g}") for seconds in curve.times_s],
    }


def _circuits(results: Results, drawn_max: int) -> dict[str, Any]:
    of = _longest(results.circuits, drawn_max)
    ports = sorted({end for one in of for end in (one.src, one.dst)}, key=natural)
    place = {port: n for n, port in enumerate(ports)}
    return {
        "ports": ports,
        "of": {
            "src": [place[one.src] for one in of],
            "dst": [place[one.dst] for one in of],
            "coflow": [one.coflow for one in of],
            "lit_s": [_ms(one.end_s if one.lit_s is None else one.lit_s) for one in of],
            **_times(of),
        },
    }


def _links(loads: LinkLoads) -> dict[str, Any]:
    """A digit of base 36 for each cell, so that many links are small."""
    levels = np.rint(loads.loads * (len(_DIGITS) - 1)).astype(int)
    return {
        "names": loads.links,
        "loads": ["".join(_DIGITS[level] for level in row) for row in levels],
    }


def _longest(found: Sequence[S], count: int) -> Sequence[S]:
    if len(found) <= count:
        return found
    longest = nlargest(count, range(len(found)), key=lambda n: found[n].end_s - found[n].begin_s)
    return [found[n] for n in sorted(longest)]


def _times(found: Sequence[S]) -> dict[str, list[float]]:
    return {
        "begin_s": [_ms(one.begin_s) for one in found],
        "end_s": [_ms(one.end_s) for one in found],
    }


def _ms(seconds: float) -> float:
    return round(seconds, 3)


# Reasons ------------------------------------------------------------------------------------------
#: Explained jobs and tasks of a page, and letters of their texts.
TEXTS_MAX = 200
_LETTERS_MAX = 120_000
#: Events times what is explained: about a second.  Logs that are larger are not even replayed.
WORK_MAX = 500_000
_LOG_BYTES_MAX = 4 * 10**6


def reasons(results: Results, work_max: int = WORK_MAX) -> dict[str, Any]:
    """The command that explains, which an id follows, and texts by the ids of jobs and tasks.

    ``begin_s``: what a text calls the time that pictures call 0 s.
    """
    folder = results.folder
    assert folder is not None, "a page is in its run's folder"
    return {
        "command": _command(folder),
        "begin_s": round(results.begin_s, 3),
        "texts": _texts(folder / EVENTS, results, work_max),
    }


def _command(folder: Path) -> str:
    return f"railyard explain {shlex.quote(str(folder))}"


def _texts(events: Path, results: Results, work_max: int) -> dict[str, str]:
    if not events.is_file() or events.stat().st_size > _LOG_BYTES_MAX:
        return {}
    with events.open("rb") as file:
        count = sum(1 for _ in file)
    most = min(TEXTS_MAX, work_max // max(1, count))
    try:
        found = explain_several(events, _wanted(results)[:most])
    except RailyardError:
        return {}  # the command says what is wrong
    texts, letters = {}, 0
    for what, explanation in found.items():
        text = "\n".join(lines_of(explanation))
        letters += len(text)
        if letters > _LETTERS_MAX:
            break
        texts[what] = text
    return texts


def _wanted(results: Results) -> list[str]:
    """Jobs, then tasks, those with the longest attempts first."""
    jobs = [job["id"] for job in results.summary["jobs"]]
    held = sorted(results.attempts, key=lambda one: one.begin_s - one.end_s)
    return list(dict.fromkeys([*jobs, *(task_of(AttemptId(one.attempt)) for one in held)]))


# The page -----------------------------------------------------------------------------------------
def finish_folder(folder: Path, summary: dict[str, Any], topology: Topology) -> None:
    """Write ``origin.json`` and the page into the folder of a run that has just ended."""
    origin = origin_now()
    write_json(asdict(origin), folder / ORIGIN)
    write_run_page(folder, summary, topology, origin)


def write_run_page(
    folder: Path, summary: Summary, topology: Topology, origin: Origin, work_max: int = WORK_MAX
) -> None:
    """Write ``index.html`` beside a run's other files; raises ``NotWritten``."""
    results = Results(folder, summary)
    data = run_data(results, results.makespan_s or 1.0) | {"why": reasons(results, work_max)}
    racks = format_count(topology.racks.count, "rack")
    emulated = summary["clock"] == "wall"
    values = {
        "title": f"{summary['workload']} under {summary['scheduler']}",
        "clock": CLOCK_WORDS[summary["clock"]].capitalize(),
        "emulation": {"scale": format_number(topology.scale), "compute": topology.compute.mode}
        if emulated
        else None,
        "flaws": list(_flaws(summary)),
        "workload": summary["workload"],
        "schedulers": schedulers_of(summary),
        "cluster": f"{topology.name}: {racks}, {topology.slots} slots. {topology.description}.",
        "origin": [("Seed", str(summary["seed"])), *origin.rows()],
        "figures": list(_figures(summary)),
        "own": [
            (f"{policy}: {figure_words(name)}", figure_unit(name, value).show(value))
            for policy, of in summary.get("figures", {}).items()
            for name, value in of.items()
        ],
        "data": embedded(data),
        "count": format_count(len(summary["jobs"]), "job"),
        "jobs": job_table(summary["jobs"]),
        "counters": counter_rows(summary["jobs"]),
        "files": [(name, words) for name, words in FILES.items() if (folder / name).exists()],
    }
    write_html("run.html", folder / PAGE, values)


def _flaws(summary: dict[str, Any]) -> Iterator[str]:
    """What to know before anything on the page is believed."""
    jobs = summary["jobs"]
    failed = [job["name"] for job in jobs if not job["ok"]]
    if failed:
        names = ", ".join(failed[:10])
        yield f"Of {format_count(len(jobs), 'job')}, {len(failed)} failed: {names}."
    elif summary["verified"] is False:
        yield "The output of the jobs is wrong."
    if not is_trusted(summary):
        words = fidelity_words(summary["fidelity"])
        yield f"This machine was too busy for the times to be trusted: {words}."
    if "coarse" in summary:
        off = summary["coarse"]["off"]
        yield (
            f"Simulated coarsely, with up to {summary['coarse']['tasks_in_one']} blocks as one "
            f"map. Of 20 workloads that were drawn, 19 were off by at most "
            f"{off['jct_s']:.1%} in mean job times and {off['cct_s']:.1%} in mean shuffle times "
            "(scripts/bench simulator.coarse)."
        )


def _figures(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for metric in METRICS:
        value = metric.of(summary)
        if value is not None and (value or not metric.unless_zero):
            yield metric.title, metric.show(value)
    yield "attempts", attempts_of(summary["tasks"], "copies")
    yield "bytes moved", moved_words(summary["bytes"])
    verified = {True: "verified", False: "wrong", None: "not checked"}
    yield "output", verified[summary["verified"]]
    if "fidelity" in summary:
        yield "fidelity", fidelity_words(summary["fidelity"])


# The page of a comparison -------------------------------------------------------------------------
#: Classes of the page's style sheet.
_STYLES = {Verdict.BETTER: "good", Verdict.WORSE: "bad", Verdict.UNTRUSTED: "doubt"}
_DIFFERENCES = (Verdict.BETTER, Verdict.WORSE)


def write_page(folder: Path, rows: Sequence[Row], about: Mapping[str, Any]) -> None:
    """Write ``index.html`` and ``plots/`` into a comparison's folder, and a page into each run's.

    ``about`` is what ``Comparison.described`` says of its runs.
    """
    origin = origin_now()
    write_json(asdict(origin), folder / ORIGIN)
    work_max = 2 * WORK_MAX // sum(len(row.runs) for row in rows)  # of all together
    for row in rows:
        for run in row.runs:
            own_folder = about["folders"][row.contender, run["seed"]]
            write_run_page(own_folder, run, about["place"], origin, min(WORK_MAX, work_max))
    plots = folder / "plots"
    plots.mkdir(exist_ok=True)
    panels = completion_panels(rows)
    _plot(plots, "completion-times", partial(draw_cdf, panels))
    completion = [{"title": title, "curves": list(map(curve_data, of))} for title, of in panels]
    units = {metric: unit_of(metric, rows) for metric in metrics_of(rows)}
    said = statements(rows)
    jobs = rows[0].runs[0]["jobs"]
    labels = list(dict.fromkeys(row.label for row in rows))
    values = {
        "about": about,
        "title": " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]])),
        "clocks": list(dict.fromkeys(row.clock for row in rows)),
        "seeds": [(CLOCK_WORDS[clock], seeds) for clock, seeds in about["seeds"].items()],
        "several": max(len(row.runs) for row in rows) > 1,
        "said": _statements(rows, said),
        "rule": said.rule(),
        "first": rows[0].label,
        "headings": [(metric.title, unit.name) for metric, unit in units.items()],
        "table": [_line(row, units, said) for row in rows],
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
        "completion": embedded(completion),
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


# Pictures ----------------------------------------------------------------------------------------
def _plot(plots: Path, name: str, draw: Draw) -> None:
    """Draw a picture as files, for papers and slides."""
    for kind in ("svg", "png"):
        (plots / f"{name}.{kind}").write_bytes(render(draw, LIGHT, kind))


def _runs(
    plots: Path, rows: Sequence[Row], folders: Mapping[tuple[Contender, int], Path]
) -> Iterator[dict[str, Any]]:
    """Draw slots and links of each contender's first seed; returns their data for the page."""
    until_s = max(row.runs[0]["makespan_s"] for row in rows) or 1.0
    for row in rows:
        summary, contender = row.runs[0], row.contender
        folder = folders[contender, summary["seed"]]
        results = Results(folder, summary)
        page = f"{folder.name}/{PAGE}"  # which has the texts
        why = {"command": _command(folder), "begin_s": 0.0, "texts": {}, "page": page}
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
            "data": embedded(run_data(results, until_s, DRAWN_MAX // len(rows)) | {"why": why}),
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
