"""For how long the network was away while jobs ran."""

import pytest

from railyard.resourcemanager.process.network.away import Away


@pytest.mark.parametrize(
    ("begin_s", "end_s", "seconds"),
    [
        pytest.param(0.0, 10.0, 3.0, id="all of it"),
        pytest.param(1.5, 5.25, 0.75, id="parts"),
        pytest.param(2.0, 5.0, 0.0, id="not meanwhile"),
    ],
)
def test_only_the_jobs_time_counts(tmp_path, begin_s, end_s, seconds):
    away = Away(tmp_path / "away")
    away.add(1.0, 2.0)
    away.add(5.0, 7.0)
    assert away.between_s(begin_s, end_s) == seconds


def test_the_next_resourcemanager_knows_it_and_a_line_that_was_cut_short_is_left_out(tmp_path):
    Away(tmp_path / "away").add(1.0, 2.0)
    with open(tmp_path / "away", "a") as file:
        file.write("[5.0, 7\n")
    after = Away(tmp_path / "away")
    after.add(8.0, 8.5)
    assert Away(tmp_path / "away").between_s(0.0, 10.0) == 1.5


def test_a_file_that_cannot_be_written_costs_the_next_one_what_it_would_have(tmp_path):
    away = Away(tmp_path / "no-folder" / "away")
    away.add(1.0, 2.0)
    assert away.between_s(0.0, 10.0) == 1.0
    assert Away(tmp_path / "no-folder" / "away").between_s(0.0, 10.0) == 0.0
