"""Pictures say what is so, whatever the times are: axes, and runs of nothing or of no time."""

from __future__ import annotations

import json
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.experiments.contenders import Contender, rows_of
from railyard.experiments.statements import statements
from railyard.gateway.page.theme import DARK, LIGHT, css_variables
from railyard.jobs.workloads.catalog import sample_workload, workload
from railyard.report.pictures import (
    Curve,
    completion_panels,
    draw_bars,
    draw_cdf,
    draw_run,
    panels_of,
    render,
    themed,
)
from railyard.report.recordedrun import Results
from railyard.runs.figures import METRICS
from railyard.runs.simulation import VirtualRun, run_virtually

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


def results_of(folder: Path) -> Results:
    return Results(folder, json.loads((folder / "summary.json").read_text()))


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
    monkeypatch.setattr("railyard.report.pictures._SVG_TEXT", "none")
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
    results = results_of(tmp_path / "run")
    rows = rows_of({Contender("fair", "maxmin", "virtual"): [summary, summary]})
    draws = [partial(draw_run, results, results.makespan_s or 1.0)]
    draws.append(partial(draw_cdf, completion_panels(rows)))
    said = statements(rows)
    draws += [partial(draw_bars, rows, metric, said) for metric in METRICS]
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
    found = results_of(tmp_path / "run").loads(8)
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


# Colours of the pictures: how far they are apart, for people who see them all and who do not.


#: What is left of linear RGB: all of it; without the cones for long, middle and short waves.
#: Machado, Oliveira, Fernandes: A physiologically-based model for simulation of color vision
#: deficiency, 2009, severity 1.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
#: linear RGB to CIE XYZ (sRGB's primaries, D65)
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colours, vision):
    """CIE L*a*b* of "#rrggbb" as somebody sees them: differences of about 2 can just be seen."""
    rgb = np.array([[int(one[at : at + 2], 16) / 255 for at in (1, 3, 5)] for one in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ VISIONS[vision].T, 0, 1) @ TO_XYZ.T / TO_XYZ.sum(axis=1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = f.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def least(some, others, vision):
    """The least distance of two different colours."""
    apart = np.linalg.norm(lab(some, vision)[:, None] - lab(others, vision)[None], axis=2)
    return min(apart[i, j] for i, a in enumerate(some) for j, b in enumerate(others) if a != b)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_everybody_can_tell_jobs_schedulers_and_places_apart(theme, vision):
    normal = vision == "normal"
    assert least(theme.colours, theme.colours, vision) > (30 if normal else 9)
    assert least(theme.jobs, theme.jobs, vision) > (30 if normal else 20)
    assert least(theme.places, theme.places, vision) > (30 if normal else 20)
    assert least(theme.jobs, theme.colours, vision) > (20 if normal else 7.5)
    assert not set(theme.jobs) & set(theme.colours)
    ground = [theme.ground]
    assert least([*theme.jobs, *theme.colours, *theme.places], ground, vision) > 15


def test_loads_go_from_the_background_to_what_differs_most_from_it():
    for theme in (LIGHT, DARK):
        lightness = lab(theme.heat, "normal")[:, 0]
        steps = np.diff(lightness)
        assert (steps < 0).all() if theme is LIGHT else (steps > 0).all()


def test_pages_have_both_themes_colours():
    light, dark = css_variables().split("@media (prefers-color-scheme: dark)")
    for theme, css in ((LIGHT, light), (DARK, dark)):
        named = dict(re.findall(r"--(\w+): (#\w{6});", css))
        assert tuple(named[f"j{n}"] for n in range(len(theme.jobs))) == theme.jobs
        assert tuple(named[f"s{n}"] for n in range(len(theme.colours))) == theme.colours
        assert (named["h0"], named["h8"]) == (theme.heat[0], theme.heat[-1])
