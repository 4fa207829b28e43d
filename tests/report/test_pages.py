"""The page and its pictures, of simulated runs, which leave the same files as emulated ones."""

import json
import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from markupsafe import Markup

from railyard.cluster.config import ClusterConfig
from railyard.cluster.topology import load_topology
from railyard.experiments.comparison import Comparison
from railyard.experiments.contenders import Contender, rows_of
from railyard.gateway.page.theme import DARK, LIGHT
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, read_mix
from railyard.report.explanation import lines_of
from railyard.report.pages import readable, reasons, run_data, write_page, write_run_page
from railyard.report.pictures import draw_run, render
from railyard.report.recordedrun import Results
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.driving.explain import explain
from railyard.runs.folder import origin_now
from railyard.runs.requests import RunRequest
from railyard.runs.simulation import VirtualRun, run_virtually
from railyard.simulator.behaviour import Behaviour
from tests.browser import WIDTHS, look_at
from tests.chromium import needs_chromium

WORDS = ("terasort,size=600MB", "wordcount,size=300MB,submit=200ms")


def results_of(folder: Path) -> Results:
    return Results(folder, json.loads((folder / "summary.json").read_text()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a simulated run of two jobs leaves."""
    topology = load_topology("flat-4x4")
    mix = read_mix(WORDS, Defaults(size_bytes=10**9), 1)
    path = tmp_path_factory.mktemp("runs") / "run"
    run = VirtualRun(
        config=ClusterConfig(topology=topology),
        workload=measured_workload(mix, topology, 1),
        behaviour=Behaviour(),
        results=path,
    )
    run_virtually(run)
    return path


def test_slots_are_held_by_one_attempt_at_a_time(folder):
    results = results_of(folder)
    assert len(results.nodes) == 16
    assert list(results.nodes)[:5] == ["r0n0", "r0n1", "r0n2", "r0n3", "r1n0"]
    assert {held.job for held in results.attempts} == {"terasort", "wordcount"}
    assert len(results.attempts) == results.summary["tasks"]["launched"]
    maps = sum(job["maps"] for job in results.summary["jobs"])
    assert sum(held.first_stage for held in results.attempts) == maps
    last: dict[tuple[str, int], float] = {}
    for held in sorted(results.attempts, key=lambda held: held.begin_s):
        assert 0 <= held.begin_s >= last.get((held.node, held.lane), 0.0) - 1e-9
        last[held.node, held.lane] = held.end_s
    assert max(last.values()) == pytest.approx(results.makespan_s)


def test_loads_add_up_to_what_crossed_racks(folder):
    results = results_of(folder)
    loads = results.loads()
    assert loads.loads.min() >= 0
    assert loads.loads.max() <= 1
    widths = np.diff(loads.edges_s)
    up = [number for number, name in enumerate(loads.links) if name.endswith(".up")]
    carried = (loads.loads[up] * widths).sum() * 40e9 / 8
    assert carried == pytest.approx(results.summary["bytes"]["cross_rack"], rel=0.02)


def test_the_events_of_a_simulated_run_can_be_played_again(folder):
    assert sum(1 for _ in replay(folder / "events.jsonl")) > 20


def test_circuits_are_drawn(folder, tmp_path):
    plain = results_of(folder)
    shutil.copytree(folder, tmp_path / "run")
    row = {"type": "circuit", "src": "r0", "dst": "r3", "coflow": "j1.r", "lit_s": None}
    with (tmp_path / "run" / "network.jsonl").open("a") as file:
        file.write(json.dumps(row | {"begin_s": 0.5, "end_s": 1.5}) + "\n")
    with_circuits = results_of(tmp_path / "run")
    [circuit] = with_circuits.circuits
    assert (circuit.src, circuit.dst, circuit.end_s - circuit.begin_s) == ("r0", "r3", 1.0)
    assert len(draw_run(with_circuits, 5.0, LIGHT).axes) == 1 + len(
        draw_run(plain, 5.0, LIGHT).axes
    )


def test_attempts_without_a_slot_are_drawn_apart(folder):
    plain, with_reservations = results_of(folder), results_of(folder)
    job, begin_s = plain.summary["jobs"][0], plain.begin_s
    common = {"cat": "reservation", "id": f"{job['id']}.r0.0", "name": "x", "pid": 1, "tid": 0}
    rows = [{**common, "ph": ph, "ts": (begin_s + s) * 1e6} for ph, s in (("b", 1), ("e", 3))]
    vars(with_reservations)["_trace"] = [*plain._trace, *rows]
    [waiting] = with_reservations.reservations
    assert (waiting.job, waiting.begin_s) == (job["name"], pytest.approx(1.0))
    assert waiting.end_s == pytest.approx(3.0)
    assert with_reservations.attempts == plain.attempts
    panels = [len(draw_run(one, 5.0, LIGHT).axes) for one in (plain, with_reservations)]
    assert panels[1] == panels[0] + 1


def test_outputs_that_were_kept_and_taken_look_different_from_those_that_were_not(folder):
    results = results_of(folder)
    plain = draw_run(results, 5.0, LIGHT).axes[1]
    first, second, *others = results.attempts
    kept = [replace(first, outcome="taken"), replace(second, outcome="not taken"), *others]
    vars(results)["attempts"] = kept
    drawn = draw_run(results, 5.0, LIGHT).axes[1]
    hatches = [bar.get_hatch() for bar in drawn.patches]
    assert hatches == ["///", "....", *[None] * len(others)]
    assert "taken striped" in drawn.get_title()
    assert "taken striped" not in plain.get_title()


def test_a_picture_is_the_same_each_time(folder):
    results = results_of(folder)

    def draw(theme):
        return draw_run(results, results.makespan_s, theme)

    assert render(draw, LIGHT, "png") == render(draw, LIGHT, "png")
    assert render(draw, LIGHT, "png") != render(draw, DARK, "png")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The folder of a comparison."""
    out = tmp_path_factory.mktemp("compared") / "out"
    request = RunRequest(
        words=("wordcount,size=300MB,times=2",),
        schedulers=("fair", "delay"),
        flow_schedulers=("maxmin",),
        seeds=2,
        topology="flat-4x4",
        results=out,
    )
    comparison = Comparison(request)
    write_page(out, comparison.run(), comparison.described())
    return out


def test_a_page_needs_nothing_but_itself(compared):
    page = (compared / "index.html").read_text()
    links = re.findall(r"""(?:src|srcset|href)="([^"]*)""", page)
    runs = [f"{name}-maxmin-virtual-{seed}" for name in ("fair", "delay") for seed in (1, 2)]
    assert links == [f"{run}/index.html" for run in runs]
    assert "@import" not in page
    assert "url(" not in page
    for words in ("fair and delay", "wordcount,size=300MB,times=2", "flat-4x4", "CCT mean"):
        assert words in page
    plots = {path.name for path in (compared / "plots").iterdir()}
    assert {"completion-times.svg", "run-fair-maxmin-virtual.png"} <= plots
    assert (compared / "delay-maxmin-virtual-2" / "summary.json").is_file()


@needs_chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_are_drawn_for_the_width_at_hand(compared, folder, tmp_path, dark):
    summary = json.loads((folder / "summary.json").read_text())
    shutil.copytree(folder, tmp_path / "run")
    write_run_page(tmp_path / "run", summary, load_topology("flat-4x4"), origin_now())
    (tmp_path / "browser").mkdir()
    pages = {"run": tmp_path / "run" / "index.html", "comparison": compared / "index.html"}
    where = {"run": tmp_path / "run", "comparison": compared / "fair-maxmin-virtual-1"}
    found = look_at(pages, tmp_path / "browser", dark=dark)
    assert found["errors"] == []
    assert [(one["name"], one["width"]) for one in found["pages"]] == [
        (name, width) for name in pages for width in WIDTHS
    ]
    for page in found["pages"]:
        # Drawn for this width, rather than shrunk to it.
        assert not page["scrolls"]
        assert page["outside"] == []
        assert page["scales"] == pytest.approx([1.0] * len(page["titles"]), rel=0.01)
        assert page["ground"] == ("rgb(21, 26, 35)" if dark else "rgb(255, 255, 255)")
        assert len(page["tip"]) >= 3
        assert page["tip"][0].split(" of ")[1].startswith(("terasort", "wordcount"))
        task = page["tip"][0].split(" of ")[0].rsplit(".", 1)[0]
        assert f"railyard explain {where[page['name']]} {task}\n" in page["why"]
        if page["name"] == "run":
            assert f"{task} of j" in page["why"]
            assert "it could have had a slot from then on" in page["why"]
        else:
            assert "The page of this run may say it, too." in page["why"]
        assert page["again"] == page["before"] != page["after"]
        styles = {kind: set(classes) for kind, classes in page["styles"].items()}
        assert any(style.startswith("place-") for style in styles["locality"])
        assert {"phase-c", "phase-f"} <= styles["phase"]
        assert "16 slots by rack" in page["titles"]


def test_each_run_of_a_comparison_has_a_page_with_reasons(compared):
    folder = compared / "delay-maxmin-virtual-2"
    page = (folder / "index.html").read_text()
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])
    why = data["why"]
    assert why["command"] == f"railyard explain {folder}"
    jobs = [job["id"] for job in data["jobs"]]
    tasks = [name.rsplit(".", 1)[0] for name in data["attempts"]["name"]]
    assert set(why["texts"]) == {*jobs, *tasks}
    events = folder / "events.jsonl"
    for what in (jobs[0], tasks[0], tasks[-1]):
        assert why["texts"][what] == "\n".join(lines_of(explain(events, what)))


def test_what_is_explained_on_a_page_is_bounded(folder):
    results = results_of(folder)
    events = (folder / "events.jsonl").read_text().count("\n")
    texts = reasons(results, 5 * events + 1)["texts"]
    longest = sorted(results.attempts, key=lambda one: one.begin_s - one.end_s)
    tasks = dict.fromkeys(one.attempt.rsplit(".", 1)[0] for one in longest)
    assert list(texts) == ["j1", "j2", *list(tasks)[:3]]
    assert reasons(results, 0)["texts"] == {}


def test_words_of_a_job_cannot_break_the_page(tmp_path, folder):
    summary = json.loads((folder / "summary.json").read_text())
    summary["jobs"][0]["name"] = "<script>alert(1)</script>"
    contender = Contender("fair", "maxmin", "virtual")
    about = {
        "workload": "<b>", "seeds": {"virtual": (1,)},
        "place": load_topology("flat-4x4"), "folders": {(contender, 1): tmp_path / "run"},
    }  # fmt: skip
    (tmp_path / "out").mkdir()
    shutil.copytree(folder, tmp_path / "run")
    write_page(tmp_path / "out", rows_of({contender: [summary]}), about)
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_a_single_run_has_a_page_with_where_it_comes_from(railyard, tmp_path):
    out = tmp_path / "a <b>run"
    done = railyard.call(
        *("simulate", "--workload", "wordcount,size=300MB,times=2", "--topology", "flat-4x4"),
        *("--seed", "3", "--out", out, "--json", tmp_path / "s.json"),
    )
    assert done.returncode == 0
    files = "events.jsonl, network.jsonl, origin.json, summary.json, trace.json"
    assert done.stderr.splitlines()[-2:] == [
        f"written: {out}/index.html shows it; beside it {files}",
        f"written: {tmp_path}/s.json",
    ]
    page = (out / "index.html").read_text()
    origin = json.loads((out / "origin.json").read_text())
    assert origin["command"].startswith("railyard simulate --workload wordcount,size=300MB,times=2")
    assert str(out) in origin["command"]
    command = re.search(r"<dt>Command</dt><dd><code>(.*)</code>", page)[1]
    assert unescape(command) == origin["command"]
    for words in ("<dt>Seed</dt><dd>3</dd>", origin["host"], origin["version"], "flat-4x4"):
        assert words in page
    links = re.findall(r"""(?:src|srcset|href)="([^"]*)""", page)
    assert set(links) == {path.name for path in out.iterdir()} - {"index.html"}
    assert "<b>" not in page


def test_a_page_says_what_is_wrong_with_its_run(tmp_path, folder):
    summary = json.loads((folder / "summary.json").read_text())
    summary["jobs"][0]["ok"] = False
    summary["fidelity"] = {"grant_lag_ms_p99": 300.0, "cpu_saturated": 0.9}
    summary["coarse"] = {
        "tasks_in_one": 61,
        "off": {"jct_s": 0.02, "cct_s": 0.1},
    }
    shutil.copytree(folder, tmp_path / "out")
    write_run_page(tmp_path / "out", summary, load_topology("flat-4x4"), origin_now())
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Of 2 jobs, 1 failed: terasort." in page
    assert "too busy for the times to be trusted: grants at most 300.0 ms late" in page
    assert "with up to 61 blocks as one map" in page
    assert "at most 2.0% in mean job times and 10.0% in mean shuffle times" in page


def test_of_very_many_attempts_the_longest_are_drawn(folder):
    results = results_of(folder)
    data = run_data(results, results.makespan_s, 5)
    lengths_s = sorted(one.end_s - one.begin_s for one in results.attempts)
    drawn = data["attempts"]
    drawn_s = [end - begin for begin, end in zip(drawn["begin_s"], drawn["end_s"], strict=True)]
    assert sorted(drawn_s) == pytest.approx(lengths_s[-5:], abs=2e-3)
    assert data["left_out"] == len(results.attempts) - 5
    assert {len(column) for column in drawn.values()} == {5}


def test_names_can_only_be_read_in_the_page():
    assert readable("a\u202e\x1b<b>") == "a\\u202e\\x1b<b>"  # which Jinja then escapes
    ours = Markup("<b>\n</b>")
    assert readable(ours) is ours
