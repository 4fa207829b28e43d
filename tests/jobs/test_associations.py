"""Self-Join against Apriori's definition of its candidates; generated associations; wrong lines."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.jobs.local import BytesReader, run_locally
from railyard.jobs.samples.associations import check
from railyard.jobs.samples.associations.generate import AssociationsGen
from railyard.jobs.samples.associations.job import SelfJoin, associations
from railyard.jobs.samples.checkedlines import check_lines
from railyard.jobs.samples.sample import GivenFile
from railyard.jobs.taskio import BadInput

ITEMS = ["A", "a", "aa", "b", "ü"]


def joined(lines, reduces=1, split_bytes=10_000):
    data = "".join(f"{line}\n" for line in lines).encode()
    run = run_locally(SelfJoin(), {"/in": data}, reduces, split_bytes)
    return [output.decode().splitlines() for output in run.outputs["r"]]


@settings(max_examples=60, deadline=None)
@given(
    sets=st.lists(st.sets(st.sampled_from(ITEMS), min_size=1, max_size=4), min_size=1, max_size=12),
    reduces=st.integers(1, 3),
    split_bytes=st.sampled_from([1, 5, 10_000]),
)
def test_two_associations_become_a_candidate_if_only_their_last_items_differ(
    sets, reduces, split_bytes
):
    rows = {tuple(sorted(items, key=str.encode)) for items in sets}
    expected = {
        ",".join([*first[:-1], *sorted((first[-1], second[-1]), key=str.encode)])
        for first, second in combinations(rows, 2)
        if first[:-1] == second[:-1]
    }
    lines = [",".join(sorted(items, key=str.encode)) for items in sets]
    outputs = joined(lines, reduces, split_bytes)
    assert sorted(line for output in outputs for line in output) == sorted(expected)


def test_the_example_of_apriori():
    """Agrawal and Srikant, VLDB 1994, section 2.1.1, before the pruning."""
    outputs = joined(["1,2,3", "1,2,4", "1,3,4", "1,3,5", "2,3,4"], reduces=2)
    assert sorted(line for output in outputs for line in output) == ["1,2,3,4", "1,3,4,5"]


@pytest.mark.parametrize("bad", ["b,a", "a,a", "a,,b", ",a", "", "a,b,"])
def test_a_line_that_is_no_association_is_named_by_file_and_line(bad):
    rows = [f"i{n:03},j{n:03},k\n" for n in range(40)]
    data = "".join([*rows[:30], f"{bad}\n", *rows[30:]]).encode()
    for split_bytes in (10, 200, 10_000):
        with pytest.raises(BadInput, match=r"^/in:31: .*: need items in increasing order"):
            run_locally(SelfJoin(), {"/in": data}, 1, split_bytes)
    with pytest.raises(BadInput, match=r"^mine\.txt:31: "):
        check_lines(associations, [GivenFile("", "mine.txt", BytesReader(data))])
    check_lines(associations, [GivenFile("", "mine.txt", BytesReader("".join(rows).encode()))])


def test_the_check_shares_nothing_with_the_job():
    imports = re.findall(r"^(?:from|import) .*", Path(check.__file__).read_text(), re.MULTILINE)
    assert not [line for line in imports if "samples.associations" in line]


def test_generated_associations_share_beginnings_over_all_parts():
    job = AssociationsGen(rows=20_000, parts=4, seed=3)
    made = run_locally(job, {}).outputs["m"]
    assert made == run_locally(AssociationsGen(rows=20_000, parts=4, seed=3), {}).outputs["m"]
    rows = [line.split(",") for part in made for line in part.decode().splitlines()]
    assert len(rows) == 20_000
    assert all(first < second < third for first, second, third in rows)
    groups = Counter((first, second) for first, second, _ in rows)
    assert 0.5 < sum(n * (n - 1) / 2 for n in groups.values()) / len(rows) < 0.7
    assert groups.most_common(1)[0][1] > 8
    by_part = [{tuple(line.split(",")[:2]) for line in part.decode().splitlines()} for part in made]
    assert len(by_part[0] & by_part[3]) > 500
