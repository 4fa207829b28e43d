"""Pictures say what is so, whatever the times are: axes, and runs of nothing or of no time."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.gateway.page.theme import DARK, LIGHT
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.samples import sample_workload
from railyard.scripts.comparing.metrics import METRICS
from railyard.scripts.comparing.rows import Contender, label_rows, rows_of
from railyard.scripts.comparing.statements import statements
from railyard.scripts.report.bars import draw_bars
from railyard.scripts.report.cdf import Curve, draw_cdf
from railyard.scripts.report.completion import colours_of, completion, panels_of
from railyard.scripts.report.results import Results
from railyard.scripts.report.style import render, themed
from railyard.scripts.report.timeline import draw_run
from railyard.scripts.simulating.virtual import VirtualRun, run_virtually

#: Times of a picture's jobs that are unlike those of common runs.  Warnings are errors in tests.
TIMES_S = {
    "no jobs": [],
    "one job": [3.0],
    "one job of no time": [0.0],
    "all of no time": [0.0, 0.0, 0.0],
    "all equal": [2.0, 2.0],
    "some of no time": [0.0, 1e-6, 5e6],
    "very short": [5e-324, 5e-324],
    "very long": [1e-9, 1.0, 1e12],
}


def curve(times_s: list[float]) -> Curve:
    return Curve(label="fair", colour=0, dashed=False, times_s=times_s)


def axis_labels(times_s: list[float]) -> list[str]:
    with themed(LIGHT):
        figure = draw_cdf(panels_of([curve(times_s)], []), LIGHT)
        figure.draw_without_rendering()
        axes = figure.axes[0]
        low, high = axes.get_xlim()
        ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        return [label.get_text() for at, label in ticks if low <= at <= high]


@pytest.mark.parametrize("kind", ["svg", "png"])
@pytest.mark.parametrize("times_s", TIMES_S.values(), ids=TIMES_S)
def test_curves_of_any_times_are_drawn(times_s: list[float], kind: str):
    panels = panels_of([curve(times_s), curve([1.0, 2.0])], [curve(times_s)])
    for theme in (LIGHT, DARK):
        assert render(partial(draw_cdf, panels), theme, kind)


@pytest.mark.parametrize("time_s", [math.nan, math.inf, -1.0])
def test_what_is_no_time_is_refused(time_s: float):
    with pytest.raises(UsageError, match=r"a time of fair = .*: need seconds >= 0"):
        curve([1.0, time_s])


def test_a_logarithmic_axis_has_seconds():
    assert axis_labels([0.05, 2.0, 300.0]) == ["0.1 s", "1 s", "10 s", "100 s"]
    assert axis_labels([1.0, 20.0, 40_000.0]) == ["1 s", "10 s", "100 s", "1,000 s", "10,000 s"]


def test_an_axis_of_no_time_begins_at_nothing():
    with themed(LIGHT):
        assert draw_cdf(panels_of([curve([0.0])], []), LIGHT).axes[0].get_xlim() == (0.0, 1.0)


def test_no_picture_has_tex(monkeypatch):
    """What is drawn as text in the SVG, which else has outlines of letters."""
    monkeypatch.setattr("railyard.scripts.report.style._SVG_TEXT", "none")
    svg = render(partial(draw_cdf, panels_of([curve([0.05, 2.0, 300.0])], [])), LIGHT, "svg")
    assert b"mathdefault" not in svg
    assert b">10 s</text>" in svg


def summary_of(trace: str, tmp_path: Any) -> dict[str, Any]:
    file = tmp_path / "trace.tsv"
    file.write_text(trace)
    run = VirtualRun(
        config=ClusterConfig(topology=load_topology("flat-4x4")),
        workload=workload(f"swim:{file},start=0s", 1),
        results=tmp_path / "run",
    )
    return run_virtually(run)


@pytest.mark.parametrize(
    "trace",
    ["a\t0\t0\t0\t0\t0\n", "a\t0\t0\t0\t0\t0\nb\t1\t1\t0\t0\t0\n", "a\t0\t0\t1\t0\t0\n"],
    ids=["of no time", "two of no time", "of a byte"],
)
def test_all_pictures_of_a_run_of_nothing_are_drawn(trace: str, tmp_path: Any):
    summary = summary_of(trace, tmp_path)
    results = Results.load(tmp_path / "run")
    rows = rows_of({Contender("fair", "maxmin", "virtual"): [summary, summary]})
    labels = label_rows(rows)
    colours = colours_of(rows, labels)
    draws = [partial(draw_run, results, results.makespan_s or 1.0)]
    draws.append(completion(rows, labels, colours))
    said = statements(rows)
    draws += [partial(draw_bars, rows, metric, labels, colours, said) for metric in METRICS]
    for draw in draws:
        for kind in ("svg", "png"):
            assert render(draw, LIGHT, kind)


def test_a_run_without_jobs_is_drawn():
    summary = {"jobs": [], "makespan_s": 0.0}
    assert render(partial(draw_run, Results(None, summary), 1.0), LIGHT, "png")


def loads_under(faults: str, tmp_path: Any) -> dict[str, list[float]]:
    """The load of each link in eighths of a run, under faults."""
    run = VirtualRun(
        config=ClusterConfig(topology=load_topology("flat-4x4")),
        workload=sample_workload("terasort", 10**9, 64_000_000, 8),
        faults=faults,
        results=tmp_path / "run",
    )
    run_virtually(run)
    found = Results.load(tmp_path / "run").loads(8)
    assert found is not None
    return {name: list(row) for name, row in zip(found.links, found.loads, strict=True)}


def test_a_link_that_is_slowed_is_as_loaded_as_it_is(tmp_path: Any):
    loads = loads_under("link:r1.up*0.001@0s+10s", tmp_path)
    assert min(loads["r1.up"][2:6]) > 0.95
    assert max(loads["r2.up"][2:6]) < 0.1


def test_a_link_that_carries_nothing_is_full(tmp_path: Any):
    loads = loads_under("link:r1.up*0@0s+10s", tmp_path)
    assert min(loads["r1.up"][:6]) == 1.0
    assert max(loads["r2.up"][2:6]) < 0.1
