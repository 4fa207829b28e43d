"""``railyard validation``: verdicts, records, and the page that is made of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railyard.cluster.errors import UsageError
from railyard.experiments.figures import BETTER, WORSE, Known, published
from railyard.experiments.papers import PAPERS, Key, paper
from railyard.experiments.reproduction import (
    Row,
    load,
    record,
    recorded,
    rows,
    save,
    verdict,
)
from tests.command_line import CommandLine

MAKESPAN = Key("fig6", "W1", "corral", "makespan")


def numbers(mean: float = 28.0, half_width: float | None = 3.0, **changed) -> dict:
    """What ``railyard reproduce corral fig6 --json`` writes, as far as it matters."""
    line = {"case": "W1", "subject": "corral", "measure": "makespan", "coarse": "12 tasks in 1"}
    line |= {"mean": mean, "ci95_half_width": half_width}
    other = line | {"subject": "local-shuffle"}
    made = {"command": "railyard reproduce corral fig6", "code": "abc1234", "seed_range": "4-10"}
    return {"paper": "corral", "figures": {"fig6": {"lines": [other, line]}}} | made | changed


def row(mean: float, half_width: float | None, folder: Path) -> Row:
    save(recorded(numbers(mean, half_width), [MAKESPAN]), folder / "corral.json")
    [found] = [each for each in rows(folder) if each.recorded is not None]
    return found


@pytest.mark.parametrize(
    ("known", "mean", "unit", "words"),
    [
        pytest.param((10, 33), 28, "%", "within 10 points", id="in the range"),
        pytest.param((10, 33), 43, "%", "within 10 points", id="10 points above it"),
        pytest.param((10, 33), 43.5, "%", "same direction", id="far above it"),
        pytest.param((10, 33), 0.5, "%", "within 10 points", id="a little below it"),
        pytest.param(40, 12, "%", "same direction", id="far below it"),
        pytest.param(40, -1, "%", "not reproduced", id="worse"),
        pytest.param(-20, -60, "%", "same direction", id="worse in both"),
        pytest.param(BETTER, 70, "%", "same direction", id="better, no number"),
        pytest.param(WORSE, 3, "%", "not reproduced", id="should be worse"),
        pytest.param(50, 54, "s", "within 10 points", id="8 % of seconds"),
        pytest.param(50, 56, "s", "same direction", id="12 % of seconds"),
    ],
)
def test_a_verdict_of_a_reduction(known: Known, mean: float, unit: str, words: str):
    assert verdict(published(known), mean, unit, reduces=True) == words


def test_what_is_no_reduction_has_no_direction():
    assert verdict(published(95.2), 60.0, "%", reduces=False) == "not reproduced"
    assert verdict(published(2.01), 1.87, "", reduces=False) == "within 10 points"


@pytest.mark.parametrize(("half_width", "is_chance"), [(30.0, True), (3.0, False), (None, False)])
def test_an_interval_with_both_signs_may_be_chance(half_width, is_chance, tmp_path: Path):
    found = row(28.0, half_width, tmp_path)
    assert (found.paper, found.where) == ("corral", "Fig. 6, section 6.2.1")
    assert found.is_chance == is_chance


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
    [line] = [line for line in text.splitlines() if "W1, `corral`, less makespan" in line]
    for words in (
        "| 10 to 33 % | -2.0 ± 5.0 |",
        "12 tasks in 1",
        "**not reproduced** (by chance?)",
    ):
        assert words in line
    assert "1. `railyard reproduce corral fig6`, abc1234" in text
    assert text.count("not recorded") >= len(paper("corral").headlines()) - 1
    assert railyard.call("validation", records).stdout == text


def test_a_headline_that_there_is_no_more_is_forgotten(tmp_path: Path):
    other = MAKESPAN._replace(subject="local-shuffle")
    save(recorded(numbers(), [other]), tmp_path / "corral.json")
    file = tmp_path / "numbers.json"
    file.write_text(json.dumps(numbers()))
    record(file, tmp_path)
    assert set(load(tmp_path / "corral.json")) == {MAKESPAN}


def test_the_command_refuses_what_has_no_numbers(railyard: CommandLine, tmp_path: Path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"paper": "coral"}')
    made = railyard.call("validation", tmp_path, "--add", wrong)
    assert made.returncode == 2
    assert "need what railyard reproduce --json wrote" in made.stderr


def test_every_headline_is_a_published_line_of_its_paper(tmp_path: Path):
    found = [each.paper for each in rows(tmp_path)]
    assert {name: found.count(name) for name in PAPERS} == {
        name: len(paper(name).headlines()) for name in PAPERS
    }


@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
@pytest.mark.parametrize("name", PAPERS)
def test_a_number_is_found_by_its_words(name: str, quick: bool):
    """A record has a line's words; two lines with the same words would share a record."""
    for figure in paper(name).figures(quick).values():
        words = [(line.case, line.subject, line.measure.title) for line in figure.lines]
        assert len(set(words)) == len(words)
