"""The query: its operators, its tables, and its result against the plainest program."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from decimal import ROUND_HALF_UP, Decimal
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.messages import Split, TaskSpec
from railyard.jobs.local import BytesReader, LocalIO, run_locally
from railyard.jobs.model import Job, Stage
from railyard.jobs.plan import GivenFile
from railyard.jobs.samples.correlation import ROW_BYTES, Correlation, TableGen, checked_rows
from railyard.jobs.samples.query import (
    RANKING_BYTES,
    RANKINGS,
    VISIT_BYTES,
    Query,
    RankingsGen,
    Scan,
    Select,
    UserVisitsGen,
    check_tables,
    run_select,
)
from railyard.jobs.samples.selfjoin import AssociationsGen, SelfJoin, associations
from railyard.jobs.samples.tasks import check_lines
from railyard.jobs.taskio import BadInput, JobError

INPUTS = {"rankings": ["/r"], "uservisits": ["/v"]}


def ranking(url, rank):
    return f"{url},{rank},7\n"


def visit(address, url, day, revenue):
    return f"{address},{url},{day},{revenue},agent,DEU,de-DE,word,3\n"


def run_query(rankings, visits, reduces=1, split_bytes=10_000, **params):
    """The lines of the result; tables are lists of the arguments of ``ranking`` and ``visit``."""
    files = {
        "/r": "".join(ranking(*row) for row in rankings).encode(),
        "/v": "".join(visit(*row) for row in visits).encode(),
    }
    run = run_locally(Query(**params), files, reduces, split_bytes, INPUTS)
    [out] = run.outputs["top"]
    return out.decode().splitlines()


def nested_loops(rankings, visits, since, until, most):
    """The query as its SQL reads: all pairs of rows, filtered, grouped, sorted, cut."""
    groups = defaultdict(list)
    for address, visited, day, revenue in visits:
        for url, rank in rankings:
            if url == visited and since <= day <= until:
                groups[address].append((Decimal(revenue), rank))
    rows = [(sum(r for r, _ in pairs), address, pairs) for address, pairs in groups.items()]
    rows.sort(key=lambda row: (-row[0], row[1]))
    return [
        f"{address}\t{total:.9f}\t{_mean([rank for _, rank in pairs])}"
        for total, address, pairs in rows[:most]
    ]


def _mean(ranks):
    return (Decimal(sum(ranks)) / len(ranks)).quantize(Decimal("0.001"), ROUND_HALF_UP)


URLS = st.sampled_from(["a", "b", "b/ü", "c c", "𝄞"])
DAYS = st.sampled_from(["1979-12-31", "1980-01-01", "1985-06-15", "1990-01-01", "1990-01-02"])
REVENUES = st.one_of(
    st.sampled_from(["0", "5", "0.000000001", "999999999.999999999"]),
    st.decimals(0, 1000, places=2).map(str),
)


@settings(max_examples=60, deadline=None)
@given(
    rankings=st.lists(st.tuples(URLS, st.integers(0, 2**31 - 1)), min_size=1, max_size=6),
    visits=st.lists(
        st.tuples(st.sampled_from("xyzü𝄞"), URLS, DAYS, REVENUES), min_size=1, max_size=25
    ),
    most=st.integers(1, 4),
    reduces=st.integers(1, 3),
    split_bytes=st.sampled_from([1, 40, 10_000]),
)
def test_the_result_is_that_of_nested_loops(rankings, visits, most, reduces, split_bytes):
    period = ("1980-01-01", "1990-01-01")
    expected = nested_loops(rankings, visits, *period, most)
    params = dict(zip(("since", "until"), period, strict=True)) | {"most": most}
    assert run_query(rankings, visits, reduces, split_bytes, **params) == expected


def test_equal_revenues_go_by_address_and_halves_are_rounded_up():
    rankings = [("p", 1), ("q", 2)] + [(f"{n}", 0) for n in range(1998)]
    visits = [(address, url, "1990-01-01", "1.50") for address in "ba" for url in "pq"]
    visits += [("c", url, "1990-01-01", "0") for url, _ in rankings[1:]]
    assert run_query(rankings, visits, reduces=3, most=3) == [
        "a\t3.000000000\t1.500",
        "b\t3.000000000\t1.500",
        "c\t0.000000000\t0.001",
    ]


# Operators -----------------------------------------------------------------------------------
class Doubled(Job):
    """A scan whose rows are the output, and a select over two stages."""

    def stages(self):
        return (
            Stage("scan", Scan(RANKINGS, "SELECT pageURL, 2 * pageRank FROM rankings")),
            Stage("all", Scan(RANKINGS, "SELECT pageURL, 1 FROM rankings")),
            Stage(
                "both",
                Select(
                    {"a": ("url", "rank"), "b": ("url", "one")},
                    "SELECT url, SUM(rank) + SUM(one) + :more FROM a JOIN b USING (url) GROUP BY 1",
                    {"more": 100},
                    as_pair=lambda row: row,
                ),
                reads=("scan", "all"),
            ),
        )


def test_operators_scan_ship_and_join():
    table = b"a,1,0\nb,2,0\nc,3,0\n"
    run = run_locally(Doubled(), {"/in": table}, reduces=2, split_bytes=7)
    lines = sorted(b"".join(run.outputs["both"]).splitlines())
    assert lines == [b"a\t103", b"b\t105", b"c\t107"]
    assert run.counters["scan.rows_in"] == run.counters["scan.rows_out"] == 3
    assert run.counters["both.rows_out"] == 3


def test_a_scan_of_blocks_reports_its_progress():
    table = b"".join(b"page%d%s,1,0\n" % (n, bytes(400)) for n in range(6000))
    split = Split(path="/in", stored_offset=0, stored_length=len(table))
    io, counters = LocalIO({"/in": table}), {}
    scan = Scan(
        RANKINGS, "SELECT pageRank FROM rankings WHERE pageURL LIKE :url", {"url": "page77%"}
    )
    task = TaskSpec(stage="m", index=0, splits=(split,))
    result = scan.run(task, io, counters)
    assert b"".join(result.output) == b"1\t()\n" * 11
    assert counters == {"m.rows_in": 6000, "m.rows_out": 11}
    assert len(io.reported) >= 2
    assert io.reported == sorted(io.reported)
    assert io.reported[-1] == 1.0


def test_a_sum_beyond_64_bits_is_an_error_of_the_job():
    rows = [(2**62,), (2**62,)]
    with pytest.raises(JobError, match=r"SELECT SUM\(x\) FROM t: integer overflow"):
        list(run_select({"t": (("x",), rows)}, "SELECT SUM(x)\n FROM t", {}))


def test_a_long_select_reports_that_it_is_alive():
    steps = []
    numbers = [(n,) for n in range(2000)]
    select = "SELECT COUNT(*) FROM t AS a JOIN t AS b ON a.x < b.x"
    found = run_select({"t": (("x",), numbers)}, select, {}, lambda: steps.append(1))
    assert list(found) == [(2000 * 1999 // 2,)]
    assert steps


# Tables --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"url,1", "2 columns: need the 3 of rankings: pageURL, pageRank, avgDuration"),
        (b"", "1 column: need the 3 of rankings"),
        (b"url,1,2,3", "4 columns: need the 3"),
        (b"pageURL,pageRank,avgDuration", 'pageRank is "pageRank": need a whole number below 2**3'),
        (b"url,-1,2", 'pageRank is "-1": need a whole number'),
        (b"url,2147483648,2", 'pageRank is "2147483648": need a whole number below 2**31'),
        ("url,٣,2".encode(), "pageRank is"),
        (b"\xff,1,2", "pageURL is"),
    ],
)
@pytest.mark.parametrize("split_bytes", [1, 6, 17, 10_000])
def test_a_row_of_other_columns_is_named_by_file_and_line(line, words, split_bytes):
    table = b"a,1,1\n" * 9 + b"b,2,2\r\n" + line + b"\nc,3,3\n"
    with pytest.raises(BadInput) as caught:
        run_locally(Query(), {"/r": table, "/v": b""}, 1, split_bytes, INPUTS)
    assert str(caught.value).startswith("/r:11: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match=r"^mine\.csv:11: "):
        check_tables([GivenFile("rankings", "mine.csv", BytesReader(table))])


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (visit("x", "a", "1980-1-1", "1"), 'visitDate is "1980-1-1": need a day such as'),
        (visit("x", "a", "1980-02-30", "1"), 'visitDate is "1980-02-30"'),
        (visit("x", "a", "1980-01-01", "1e3"), 'adRevenue is "1e3": need a decimal >= 0'),
        (visit("x", "a", "1980-01-01", "-1"), 'adRevenue is "-1": need a decimal >= 0'),
        (visit("x", "a", "1980-01-01", "0.0000000001"), 'adRevenue is "0.0000000001"'),
        (ranking("a", 1), "3 columns: need the 9 of uservisits: sourceIP, destURL, visitDate"),
    ],
)
def test_visits_of_other_columns_are_refused(row, words):
    good = visit("x", "a", "1980-01-01", "1")
    with pytest.raises(BadInput, match="^v.csv:2: " + re.escape(words)):
        check_tables([GivenFile("uservisits", "v.csv", BytesReader((good + row).encode()))])


def test_generated_tables_are_skewed_and_as_large_as_asked():
    rankings = run_locally(RankingsGen(pages=3000, parts=3), {}).outputs["m"]
    visits = run_locally(UserVisitsGen(rows=20_000, pages=3000, parts=4), {}).outputs["m"]
    assert (len(rankings), len(visits)) == (3, 4)
    for parts, rows, row_bytes in ((rankings, 3000, RANKING_BYTES), (visits, 20_000, VISIT_BYTES)):
        lines = b"".join(parts).splitlines()
        assert len(lines) == rows
        assert abs(sum(map(len, parts)) / (rows * row_bytes) - 1) < 0.02
    check_tables([GivenFile("rankings", "r", BytesReader(b"".join(rankings)))])
    check_tables([GivenFile("uservisits", "v", BytesReader(b"".join(visits)))])
    pages = {line.split(b",")[0] for part in rankings for line in part.splitlines()}
    assert len(pages) == 3000
    visited = Counter(line.split(b",")[1] for part in visits for line in part.splitlines())
    [(_, most)] = visited.most_common(1)
    assert 0.03 < most / 20_000 < 0.06, "1 / the sum of n**-0.8 up to 3300 is 0.048"
    assert 0.02 < sum(n for url, n in visited.items() if url not in pages) / 20_000 < 0.2
    again = run_locally(UserVisitsGen(rows=20_000, pages=3000, parts=4), {}).outputs["m"]
    other = run_locally(UserVisitsGen(rows=20_000, pages=3000, parts=4, seed=2), {}).outputs["m"]
    assert visits == again
    assert visits[1] != other[1]


# Correlation against a plain definition of ranks; its graph; generated tables; wrong lines.


def correlated(lines, split_bytes=10_000):
    data = "".join(f"{line}\n" for line in lines).encode()
    [output] = run_locally(Correlation(), {"/in": data}, 1, split_bytes).outputs["joined"]
    return [tuple(line.split("\t")) for line in output.decode().splitlines()]


def test_its_graph_is_a_diamond_of_single_tasks():
    by_name = {stage.name: stage for stage in Correlation().stage_specs()}
    assert {name: stage.reads for name, stage in by_name.items()} == {
        "m": (),
        "rows": ("m",),
        "first": ("rows",),
        "second": ("rows",),
        "joined": ("first", "second"),
    }
    assert [stage.tasks for stage in by_name.values()] == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("lines", "ranks", "coefficient"),
    [
        (["a,1,10", "b,2,20", "c,3,30"], ["a 1 1", "b 2 2", "c 3 3"], "1.000000"),
        (["a,1,30", "b,2,20", "c,3,-10"], ["a 1 3", "b 2 2", "c 3 1"], "-1.000000"),
        (["a,5,1", "b,5,2", "c,9,3"], ["a 1.5 1", "b 1.5 2", "c 3 3"], "0.866025"),
        (["a,5,1", "b,5,2"], ["a 1.5 1", "b 1.5 2"], "undefined"),
        (["b,2,2", "a,1,9", "b,2,1", "a,1,5"], ["a 1 2", "b 2 1"], "-1.000000"),
        (["a,1,2"], ["a 1 1"], "undefined"),
    ],
)
def test_examples(lines, ranks, coefficient):
    *found, last = correlated(lines)
    assert [" ".join(each) for each in found] == ranks
    assert last == ("", str(len(ranks)), coefficient)


@settings(max_examples=60, deadline=None)
@given(
    table=st.lists(
        st.tuples(st.sampled_from("abcdeü"), st.integers(-3, 3), st.integers(-3, 3)),
        min_size=1,
        max_size=12,
    ),
    split_bytes=st.sampled_from([1, 5, 10_000]),
)
def test_ranks_are_how_many_are_below_and_half_of_the_equal_ones(table, split_bytes):
    *found, last = correlated([f"{n},{a},{b}" for n, a, b in table], split_bytes)
    least = {name: min(row[1:] for row in table if row[0] == name) for name, *_ in table}
    assert [name for name, *_ in found] == sorted(least, key=str.encode)
    for name, *ranks in found:
        for column, rank in enumerate(ranks):
            own = least[name][column]
            below = sum(row[column] < own for row in least.values())
            equal = sum(row[column] == own for row in least.values())
            assert float(rank) == below + (equal + 1) / 2
    assert last[:2] == ("", str(len(least)))


@pytest.mark.parametrize("bad", ["a,1", "a,1,2,3", ",1,2", "a,1,x", "a,1.5,2", "", "a\tb,1,2"])
def test_a_line_that_is_no_row_is_named_by_file_and_line(bad):
    lines = [f"n{n:03},1,2\n" for n in range(40)]
    data = "".join([*lines[:30], f"{bad}\n", *lines[30:]]).encode()
    for split_bytes in (10, 200, 10_000):
        with pytest.raises(BadInput, match=r"^/in:31: .*: need name,first,second"):
            run_locally(Correlation(), {"/in": data}, 1, split_bytes)
    with pytest.raises(BadInput, match=r"^mine\.csv:31: "):
        check_lines(checked_rows, [GivenFile("", "mine.csv", BytesReader(data))])


def test_generated_rows_have_names_that_come_twice_and_columns_that_agree():
    made = run_locally(TableGen(rows=20_000, parts=3, seed=4), {}).outputs["m"]
    assert made == run_locally(TableGen(rows=20_000, parts=3, seed=4), {}).outputs["m"]
    assert sum(map(len, made)) == 20_000 * ROW_BYTES
    lines = b"".join(made).decode().splitlines()
    names = {line.split(",")[0] for line in lines}
    assert 19_500 < len(names) < 19_700
    *_, last = correlated(lines, split_bytes=100_000)
    assert 0.5 < float(last[2]) < 0.8


# Self-Join against Apriori's definition of its candidates; generated associations; wrong lines.


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
