"""``railyard validation``: verdicts, records, and the page that is made of them."""

from __future__ import annotations

import ast
import json
import os
import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from railyard.cluster.errors import UsageError
from railyard.experiments import validation
from railyard.experiments.contenders import Estimate
from railyard.experiments.figures import BETTER, WORSE, Known, published
from railyard.experiments.papers import PAPERS, Key, Paper, paper
from railyard.experiments.reproduction import as_json, carry_out, values
from railyard.experiments.validation import (
    VERDICTS,
    Row,
    checked,
    load,
    page,
    published_lines,
    record,
    recorded,
    rows,
    save,
    verdict,
)
from tests.command_line import ROOT, CommandLine

MAKESPAN = Key("fig6", "W1", "corral", "makespan")


def numbers(mean: float = 28.0, half_width: float | None = 3.0, **changed) -> dict:
    """What ``railyard reproduce corral fig6 --json`` writes, as far as it matters."""
    line = {"case": "W1", "subject": "corral", "measure": "makespan", "coarse": "12 tasks in 1"}
    line |= {"mean": mean, "ci95_half_width": half_width, "by_seed": [mean] * 7}
    other = line | {"subject": "local-shuffle"}
    made = {"command": "railyard reproduce corral fig6", "code": "abc1234", "seed_range": "4-10"}
    return {"paper": "corral", "figures": {"fig6": {"lines": [other, line]}}} | made | changed


def row(mean: float, half_width: float | None) -> Row:
    records = recorded(numbers(mean, half_width), [MAKESPAN])
    return next(each for each in rows("corral", records) if each.key == MAKESPAN)


@pytest.mark.parametrize(
    ("known", "mean", "half_width", "words"),
    [
        pytest.param(16.8, 16.4, 3.5, "reproduced", id="near it, and surely not 0"),
        pytest.param(42, 36.8, 145.0, "undecided", id="near it, but chance explains it"),
        pytest.param(16.8, 8.2, 4.6, "direction", id="half of it"),
        pytest.param(16.8, 13.0, 1.0, "reproduced", id="within a quarter"),
        pytest.param(44, 27.5, 17.0, "reproduced", id="the interval has it"),
        pytest.param(20, 0.2, 0.6, "not reproduced", id="no effect, and surely not 20"),
        pytest.param(7, 1.4, 5.5, "undecided", id="7 and 0 are in the interval"),
        pytest.param(36, -13.8, 10.0, "not reproduced", id="surely worse"),
        pytest.param(-20, -60, 10.0, "direction", id="worse in both"),
        pytest.param((10, 33), 28, 3.0, "reproduced", id="in the range"),
        pytest.param((10, 33), 45, 3.0, "direction", id="above the range"),
        pytest.param((0, 78), -11, 5.0, "not reproduced", id="below 0"),
        pytest.param(BETTER, 70, 9.0, "direction", id="better, no number"),
        pytest.param(BETTER, 1, 9.0, "undecided", id="better, by chance"),
        pytest.param(WORSE, 3, 1.0, "not reproduced", id="should be worse"),
        pytest.param(0, 2, 5.0, "reproduced", id="no effect"),
        pytest.param(0, 0, 60.0, "undecided", id="no effect, but it is not known"),
        pytest.param(0, 35, 9.0, "not reproduced", id="an effect where there is none"),
        pytest.param(44, 44, None, "undecided", id="a single seed"),
    ],
)
def test_a_verdict_of_a_reduction(known: Known, mean: float, half_width: float | None, words: str):
    ours = Estimate(mean=mean, half_width=half_width)
    found = published(known)
    assert found is not None
    assert verdict(found, ours, has_direction=True) == words
    assert words in VERDICTS


def test_what_is_no_reduction_has_no_direction():
    for known, mean, words in ((95.2, 60.0, "not reproduced"), (2.01, 1.87, "reproduced")):
        ours = Estimate(mean=mean, half_width=0.2)
        assert verdict(published(known), ours, has_direction=False) == words


def test_a_row_has_its_record_and_where_it_is_from():
    found = row(28.0, 3.0)
    assert (found.figure.where, found.verdict) == ("Fig. 6, section 6.2.1", "reproduced")
    assert not found.is_other
    assert row(-20.0, 3.0).verdict == "not reproduced"


def test_what_is_true_by_construction_does_not_count():
    key = Key("fig23", "terasort", "shadow", "shuffle skew")
    made = recorded(numbers(), [MAKESPAN])[MAKESPAN]
    [found] = [each for each in rows("shadow", {key: made}) if each.key == key]
    assert found.verdict == "by construction"


def test_records_are_kept_and_brought_up_to_date(tmp_path: Path):
    file = tmp_path / "corral.json"
    assert load(file) == {}
    before = recorded(numbers(20.0), [MAKESPAN])
    save(before, file)
    assert load(file) == before
    save(load(file) | recorded(numbers(), [MAKESPAN]), file)
    [found] = load(file).values()
    assert (found.mean, found.subject, found.seeds) == (28.0, "corral", "4-10")
    with pytest.raises(UsageError, match="which command made it"):
        recorded({"paper": "corral", "figures": {}}, [MAKESPAN])
    file.write_text('[{"mean": "many"}]')
    with pytest.raises(UsageError, match=r"corral\.json: .*need what railyard validation wrote"):
        load(file)


def test_the_command_records_and_writes_the_page(railyard: CommandLine, tmp_path: Path):
    (tmp_path / "numbers.json").write_text(json.dumps(numbers(-2.0, 5.0)))
    records, output = tmp_path / "records", tmp_path / "page.md"
    records.mkdir()
    add = ("--add", tmp_path / "numbers.json", "--output", output)
    assert railyard.call("validation", records, *add).returncode == 0
    text = output.read_text()
    assert "\n| W1, less makespan | published | ours | verdict |\n" in text
    assert "\n| `corral` | 10 to 33 % | -2.0 ± 5.0 | **not reproduced** |\n" in text
    assert "**Fig. 6, section 6.2.1**: 12 tasks in 1; seeds 4-10; by 1" in text
    assert "1. `railyard reproduce corral fig6`, abc1234" in text
    assert railyard.call("validation", records).stdout == text


def test_a_row_that_there_is_no_more_is_forgotten(tmp_path: Path):
    other = numbers()["figures"]["fig6"]["lines"][1] | {"subject": "another"}
    before = recorded(
        numbers(figures={"fig6": {"lines": [other]}}), [MAKESPAN._replace(subject="another")]
    )
    assert before
    save(before, tmp_path / "corral.json")
    file = tmp_path / "numbers.json"
    file.write_text(json.dumps(numbers()))
    record(file, tmp_path)
    local = MAKESPAN._replace(subject="local-shuffle")
    assert set(load(tmp_path / "corral.json")) == {MAKESPAN, local}


def test_the_command_refuses_what_has_no_numbers(railyard: CommandLine, tmp_path: Path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"paper": "coral"}')
    made = railyard.call("validation", tmp_path, "--add", wrong)
    assert made.returncode == 2
    assert "need what railyard reproduce --json wrote" in made.stderr


@pytest.mark.parametrize("name", PAPERS)
def test_what_is_said_of_rows_is_said_of_some(name: str):
    said, keys = paper(name).rows, published_lines(paper(name), quick=False)
    keys |= published_lines(paper(name), quick=True)
    assert said.summary
    assert said.chosen
    for some in (*said.constructed, *said.differ):
        assert any(map(some.has, keys)), some
        assert some.why in said.reasons
    for case in said.other_cases:
        assert any(case in key.case.split(", ") for key in keys), case
    assert set(said.other_figures) <= {key.figure for key in keys}
    assert {each.key for each in rows(name, {})} <= set(keys)


def test_a_number_that_two_figures_have_is_one_row():
    keys = [each.key for each in rows("tetrium", {})]
    assert Key("fig9", "waves", "tetrium", "JCT mean") in keys
    assert Key("fig10", "rho 1, waves", "tetrium", "JCT mean") not in keys
    keys = [each.key for each in rows("corral", {})]  # a run with another published number is two
    assert Key("fig8", "W1", "corral", "JCT mean") in keys
    assert Key("fig13", "0 % not on time", "corral", "JCT mean") in keys


@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
@pytest.mark.parametrize("name", PAPERS)
def test_a_number_is_found_by_its_words(name: str, quick: bool):
    """A record has a line's words; two lines with the same words would share a record."""
    for figure in paper(name).figures(quick).values():
        words = [(line.case, line.subject, line.measure.title) for line in figure.lines]
        assert len(set(words)) == len(words)


TINY = """
title = "A paper"
[setup.jobs]
workload = "tetrium-bigdata,jobs=2"
topology = "tetrium-8"
[figure.fig1]
title = "makespans"
where = "Fig. 1"
scaled = ["nothing is"]
[[figure.fig1.lines]]
case = "two jobs"
setup = "jobs"
base = "fair"
of = ["delay"]
measures = { "less makespan" = 10 }
"""


def test_recorded_numbers_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tiny = msgspec.toml.decode(TINY, type=Paper)
    monkeypatch.setattr(validation, "PAPERS", ("tiny",))
    monkeypatch.setattr(validation, "paper_named", lambda _: tiny)
    with pytest.raises(UsageError, match="no record has its numbers by seed"):
        list(checked(tmp_path, "abc", 1))
    [row] = rows("tiny", {})
    runs = carry_out({setup: [11, 12] for setup in row.figure.setups()})
    found = as_json(row.figure, values(row.figure, runs))
    made = {"command": "railyard reproduce tiny", "code": "abc1234", "seed_range": "11-12"}
    records = recorded({"paper": "tiny", "figures": {"fig1": found}} | made, [row.key])
    save(records, tmp_path / "tiny.json")
    assert [each.holds for each in checked(tmp_path, "abc", 1)] == [True]
    both = list(checked(tmp_path, "abc", 9))
    assert sorted(each.seed for each in both) == [11, 12]
    assert all(each.holds for each in both)
    [before] = records.values()
    wrong = [before.by_seed[0], 3.0]
    save({row.key: msgspec.structs.replace(before, by_seed=wrong)}, tmp_path / "tiny.json")
    [one] = [each for each in checked(tmp_path, "abc", 9) if not each.holds]
    assert one.seed == 12
    assert "seed 12: " in str(one)
    assert "recorded 3.0 at abc1234" in str(one)


@pytest.mark.timeout(400)
def test_some_of_the_project_s_records_come_out_again(
    railyard: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    if "RAILYARD_TRACES" not in os.environ:
        monkeypatch.setenv("RAILYARD_TRACES", str(ROOT.parent / "shared" / "data"))
    made = railyard.call("validation", ROOT / "docs" / "validation", "--check", 3)
    assert made.returncode == 0, made.stdout + made.stderr
    assert made.stdout.count(" as recorded at ") == 3


def test_a_trace_that_is_not_here_is_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tiny = msgspec.toml.decode(TINY.replace("tetrium-bigdata,", "swim:no-such.tsv,"), type=Paper)
    monkeypatch.setattr(validation, "PAPERS", ("tiny",))
    monkeypatch.setattr(validation, "paper_named", lambda _: tiny)
    [row] = rows("tiny", {})
    line = numbers()["figures"]["fig6"]["lines"][1] | row.key._asdict()
    save(recorded(numbers(figures={"fig1": {"lines": [line]}}), [row.key]), tmp_path / "tiny.json")
    with pytest.raises(UsageError, match="workloads fetch for the traces"):
        list(checked(tmp_path, "abc", 1))


@pytest.mark.parametrize("name", PAPERS)
def test_departures_are_said_on_the_paper_s_page_and_in_docstrings(name: str):
    page = f"reproduce-{name}.md".replace("-corral", "")
    text = " ".join((ROOT / "docs" / page).read_text().split())
    departures = paper(name).rows.departures
    assert departures
    for departure in departures:
        assert f"- {departure}" in text
        tag = departure.split("`")[1]
        assert any(tag in each for each in docstrings()), departure


@cache
def docstrings() -> list[str]:
    """What is said in schedulers and workloads of modules, classes, functions and settings."""
    found: list[str] = []
    for folder in ("resourcemanager/schedulers", "jobs/workloads", "cluster"):
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text()
            found += re.findall(r"#: .*|.* #: .*", text)
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
            found += [
                ast.get_docstring(node) or ""
                for node in ast.walk(ast.parse(text))
                if isinstance(node, kinds)
            ]
    return found


def test_a_row_says_that_its_baseline_is_from_second_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tiny = msgspec.toml.decode(TINY + '[rows]\nsecond_hand = ["fair"]', type=Paper)
    monkeypatch.setattr(validation, "PAPERS", ("tiny",))
    monkeypatch.setattr(validation, "paper_named", lambda _: tiny)
    [row] = rows("tiny", {})
    line = numbers(30.0, 3.0)["figures"]["fig6"]["lines"][1] | row.key._asdict()
    save(recorded(numbers(figures={"fig1": {"lines": [line]}}), [row.key]), tmp_path / "tiny.json")
    text = page(tmp_path)
    assert "| 30.0 ± 3.0 | **direction** (a) |\n\n(a) a scheduler from second hand\n" in text
    assert "1 rows have a number or a range: 0 (0 %) are **reproduced**." in text


def test_a_check_makes_no_page(railyard: CommandLine, tmp_path: Path):
    words = ("--check", 1, "--output", tmp_path / "page.md")
    made = railyard.call("validation", tmp_path, *words)
    assert made.returncode == 2
    assert "--check makes no page: need it without --output" in made.stderr
