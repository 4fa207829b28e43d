"""Words for a run's figures: bytes moved, policies' figures, and what jobs count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railyard.experiments.contenders import Contender, counted, rows_of
from railyard.experiments.statements import show
from railyard.report.pages import counter_rows, job_table
from railyard.runs.figures import figure_unit, figure_words, moved_words
from railyard.runs.folder import NotWritten, naming, write_json, write_text
from tests.experiments.test_comparison import summary
from tests.fulldisk import files_of_at_most, small_disk

FAIR, DELAY = (Contender(name, "maxmin", "wall") for name in ("fair", "delay"))


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        ({}, "nothing"),
        (
            {"local": 8e9, "cross_rack": 3e9, "eps": 3e9},
            "8 GB within nodes, 3 GB between racks (by packets)",
        ),
        (
            {"rack": 1e6, "cross_rack": 5e9, "eps": 2e9, "ocs": 3e9},
            "1 MB within racks, 5 GB between racks (2 GB by packets, 3 GB by circuits)",
        ),
    ],
)  # fmt: skip
def test_bytes_are_told_by_distance_and_way(moved, words):
    every = ("local", "rack", "cross_rack", "eps", "ocs", "wan")
    assert moved_words(dict.fromkeys(every, 0) | moved) == words


def test_a_policys_figure_is_shown_in_its_unit():
    assert (figure_words("waited_s"), figure_unit("waited_s", 8.75).show(8.75)) == (
        "waited",
        "8.75 s",
    )
    assert figure_unit("sent_bytes", 2e9).show(2e9) == "2 GB"
    assert (figure_words("waits_node_local"), figure_unit("waits", 4).show(4)) == (
        "waits node local",
        "4",
    )


def counting(*counts: tuple[str, dict[str, int]]):
    return summary() | {
        "jobs": [{"name": name, "ok": True, "counters": counters} for name, counters in counts]
    }


def test_counters_that_all_schedulers_have_alike_stand_once(capsys):
    run = counting(("words-1", {"odd": 2, "map.records_in": 9}), ("words-2", {"odd": 3}))
    other = counting(("words-1", {"odd": 5, "late": 1}), ("words-2", {}))
    same = counted(rows_of({FAIR: [run], DELAY: [run]}))
    assert [(one.name, one.who, one.text()) for one in same] == [("odd", "all", "5")]
    rows = rows_of({FAIR: [run, run], DELAY: [other, run]})
    assert [(one.name, one.who, one.text()) for one in counted(rows)] == [
        ("late", "fair", "0"),
        ("late", "delay", "0.5 ± 6.35"),
        ("odd", "all", "5"),
    ]
    show(rows, "jobs")
    said = capsys.readouterr().out
    assert "What the jobs counted, all of a run together" in said
    assert ["odd", "all", "5"] in [line.split() for line in said.splitlines()]
    several = counting(("words-1", {"odd": 2}), ("sort", {"odd": 1}))
    names = [one.name for one in counted(rows_of({FAIR: [several], DELAY: [several]}))]
    assert names == ["sort: odd", "words: odd"]


def job(name: str, jct_s: float, **more: object) -> dict[str, object]:
    return {
        "name": name, "id": "j1", "ok": True, "submitted_s": 1.0, "jct_s": jct_s, "cct_s": None,
        "input_bytes": 10**9, "shuffle_bytes": 0, "output_bytes": 5 * 10**6, "shuffle_skew": None,
        "maps": 1, "reduces": 2, **more,
    }  # fmt: skip


def test_a_column_of_the_jobs_table_has_one_unit():
    table = job_table([job("a", 0.25), job("b", 12.5, submitted_s=1.5)])
    assert table["headings"][:3] == [
        ("submitted after", "ms"), ("job time", "s"), ("shuffle time", ""),
    ]  # fmt: skip
    assert [row["cells"] for row in table["rows"]] == [
        ["0", "0.25", "-", "1.00", "0", "-", "5.00"],
        ["500", "12.5", "-", "1.00", "0", "-", "5.00"],
    ]
    assert table["rows"][0]["tasks"] == "1 map, 2 reduces"
    assert len(job_table([job("a", 1.0)], times=False)["headings"]) == 5


def test_counters_of_a_run_are_those_of_the_jobs_own_code():
    counters = {"bad": 12345, "m.records_in": 7}
    assert counter_rows([job("a", 1.0, counters=counters)]) == [("a", "bad", "12,345")]


# Files that people asked for are there whole, or as they were.


def test_a_file_is_replaced_through_links_too(tmp_path):
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    write_json({"a": 1}, tmp_path / "link")
    assert json.loads((tmp_path / "old").read_text()) == {"a": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "old"]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path):
    (tmp_path / "it").write_text("old")
    with files_of_at_most(1000), pytest.raises(NotWritten, match="it: cannot be written: a file w"):
        write_text("x" * 2000, tmp_path / "it")
    assert (tmp_path / "it").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_a_full_disk_is_named(tmp_path):
    with small_disk(tmp_path / "d", 2**16) as disk:
        disk.fill()
        with pytest.raises(
            NotWritten, match=f"new: cannot be written: no space left on {disk.path}"
        ):
            write_text("x" * 5000, disk.path / "new")
        with pytest.raises(NotWritten, match="no space left on"), naming(disk.path / "new"):
            (disk.path / "more").write_text("x" * 5000)


def test_a_device_is_written_to_and_not_replaced():
    with pytest.raises(NotWritten, match="/dev/full: cannot be written: no space left on"):
        write_text("x", Path("/dev/full"))
