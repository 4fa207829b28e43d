"""The files that users give their jobs: which they are, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.jobs.inputs import InputError, expanded, read_inputs
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, plan_mix, read_mix

FLAT = load_topology("flat-4x4")

COUNT = """
    from railyard import Job
    import words
    class Count(Job):
        def map(self, line):
            for word in words.of(line):
                yield word, 1
        def reduce(self, word, counts):
            yield word, sum(counts)
"""
#: Its stages read customers first, whatever order they are given in.
JOIN = """
    from railyard import Job, Map, Reduce, Stage
    class Join(Job):
        def row(self, line):
            yield tuple(line.split(","))
        def both(self, key, values):
            yield key, len(list(values))
        def stages(self):
            return (
                Stage("c", Map(self.row), inputs=("customers",)),
                Stage("o", Map(self.row), inputs=("orders",)),
                Stage("r", Reduce(self.both), reads=("c", "o")),
            )
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with texts, tables and two jobs."""
    monkeypatch.chdir(tmp_path)
    files = {
        "count.py": dedent(COUNT),
        "words.py": "def of(line):\n    return line.split()\n",
        "join.py": dedent(JOIN),
        "texts/a.txt": "to be or not\n" * 10,
        "texts/b.csv": "to be\n",
        "texts/may/c.txt": "or\n",
        "texts/may/d.txt": "",
        "texts/_done": "no data\n",
        "texts/.git/e.txt": "no data\n",
        "orders": "1,x\n1,y\n2,z\n",
        "customers": "1,ann\n2,bob\n",
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("texts", "copies"),
    [
        (["orders"], {"/in/orders": "orders"}),
        (
            ["texts"],
            {
                "/in/a.txt": "texts/a.txt",
                "/in/b.csv": "texts/b.csv",
                "/in/may-c.txt": "texts/may/c.txt",
                "/in/may-d.txt": "texts/may/d.txt",
            },
        ),
        (["texts/*.txt", "orders"], {"/in/a.txt": "texts/a.txt", "/in/orders": "orders"}),
        (["./texts/m*/[c].txt"], {"/in/may-c.txt": "texts/may/c.txt"}),
        (
            ["texts/**/*.txt"],
            {"/in/a.txt": "texts/a.txt"}
            | {f"/in/may-{one}.txt": f"texts/may/{one}.txt" for one in "cd"},
        ),
        (
            ["o=orders", "c=texts/*.csv"],
            {"/in/o/orders": "orders", "/in/c/b.csv": "texts/b.csv"},
        ),
        ([], {}),
    ],
    ids=["file", "folder", "pattern", "folders by pattern", "below", "named", "none"],
)
def test_which_local_files_an_input_has(folder, texts, copies):
    given = read_inputs(texts, "/in")
    assert given.copies == {path: Path(local) for path, local in copies.items()}
    assert given.path == ("" if not copies else next(iter(copies)) if len(copies) == 1 else "/in")


@pytest.mark.parametrize(
    ("texts", "error", "words"),
    [
        (["none"], InputError, "none: cannot be read: No such file or directory"),
        (["texts/*.md"], UsageError, "input texts/*.md: matches no file"),
        (["empty"], UsageError, "input empty: has no files"),
        (["orders", "./orders"], UsageError, "2 files are called orders"),
        (
            ["o=orders", "customers"],
            UsageError,
            "customers: others have names: need NAME=customers",
        ),
        (["dfs:a"], UsageError, "input dfs:a: need a path such as dfs:/a"),
        (["a\0b"], InputError, "cannot be read"),
    ],
    ids=[
        "missing",
        "no match",
        "empty folder",
        "same name",
        "mixed",
        "stored",
        "nul",
    ],
)
def test_wrong_inputs_are_reported_in_one_line(folder, texts, error, words):
    with pytest.raises(error) as raised:
        read_inputs(texts, "/in")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("texts", "path", "named", "copies"),
    [
        (["dfs:/a"], "/a", (), []),
        (["dfs:/a", "dfs:/b/", "dfs:/a"], "/a", (("", "/a"), ("", "/b")), []),
        (["dfs:/a", "orders"], "/in/orders", (("", "/in/orders"), ("", "/a")), ["/in/orders"]),
        (["o=dfs:/a", "o=dfs:/b"], "", (("o", "/a"), ("o", "/b")), []),
        (
            ["o=orders", "o=customers", "o=dfs:/b"],
            "/in",
            (("o", "/in/o"), ("o", "/b")),
            ["/in/o/orders", "/in/o/customers"],
        ),
        (["texts/may", "more/may"], "/in", (), ["/in/may-c.txt", "/in/d.txt", "/in/more-c.txt"]),
    ],
    ids=["one", "several", "local too", "named", "named and local", "equal names"],
)
def test_an_input_may_be_several(folder, texts, path, named, copies):
    (folder / "more").mkdir()
    (folder / "more" / "c.txt").write_text("1")
    texts = [text.replace("more/may", "more") for text in texts]
    given = read_inputs(texts, "/in")
    assert (given.path, given.named, list(given.copies)) == (path, named, copies)


STORED = {"/logs/*": ["/logs/a", "/logs/b"], "/logs/{a,b}": ["/logs/a", "/logs/b"], "/none*": []}


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("dfs:/a,/b,dfs:/c", ("dfs:/a", "dfs:/b", "dfs:/c")),
        ("dfs:/a,b.txt", ("dfs:/a,b.txt",)),
        ("x=dfs:/logs/*,/c", ("x=dfs:/logs/a", "x=dfs:/logs/b", "x=dfs:/c")),
        ("dfs:/logs/{a,b}", ("dfs:/logs/a", "dfs:/logs/b")),
        ("texts/*.txt,/b", ("texts/*.txt,/b",)),
    ],
)
def test_lists_and_patterns_of_the_store_are_written_out(text, texts):
    assert expanded([text], STORED.get) == texts


@pytest.mark.parametrize(
    ("matching", "error"),
    [(STORED.get, "input dfs:/none*: matches no file"), (None, "no cluster is up")],
)
def test_patterns_of_the_store_that_match_nothing(matching, error):
    with pytest.raises(UsageError) as raised:
        expanded(["dfs:/none*"], matching)
    assert error in str(raised.value)


def mix_of(*words, inputs=()):
    return read_mix(words, Defaults(size_bytes=10**9, inputs=inputs), 1)


def test_jobs_of_a_mix_and_of_a_file_have_inputs_of_their_own(folder):
    (folder / "jobs.toml").write_text(
        dedent("""
        [[job]]
        job = "./count.py"
        input = ["texts/a.txt", "texts/b.csv"]
        [[job]]
        job = "./join.py"
        input = { orders = "orders", customers = ["customers"] }
        """)
    )
    mix = mix_of(
        "jobs.toml",
        "./join.py,input.orders=orders,input.customers=customers",
        "./count.py",
        "terasort,size=1GB",
        inputs=("texts",),
    )
    assert {job.name: job.inputs for job in mix.jobs} == {
        "count-1": ("texts/a.txt", "texts/b.csv"),
        "join-1": ("orders=orders", "customers=customers"),
        "join-2": ("orders=orders", "customers=customers"),
        "count-2": ("texts",),
        "terasort": (),
    }
    plans = {one.job.name: one for one in plan_mix(mix, FLAT, 1, "/runs")}
    assert plans["join-1"].given.copies == plans["join-2"].given.copies, "copied once"
    assert plans["count-1"].stored_bytes == 130 + 6
    [own] = plan_mix(mix_of("./count.py,input=orders,inputs=own"), FLAT, 1, "/runs")
    assert list(own.given.copies) == ["/runs/count/input/orders"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("./count.py", "count: ./count.py: reads input: need --input FILE, or input=FILE"),
        ("./count.py,input=texts,size=1GB", "size: input says what to read"),
        ("./join.py,input=orders", "need --input customers=FILE"),
        ("./join.py,input.order=orders", 'unknown input of ./join.py "order": did you mean'),
        ("./count.py,input.text=orders", "its input has no name"),
        ("./count.py,input=dfs:/x", "count: input dfs:/x: no cluster is up"),
        ("terasort,input=orders", "terasort: orders: the record at offset 0 is cut short"),
    ],
)
def test_wrong_inputs_of_a_mix_name_the_job(folder, word, message):
    with pytest.raises(UsageError) as raised:
        plan_mix(mix_of(word), FLAT, 1, "/runs")
    assert message in str(raised.value)


def test_own_jobs_are_measured_on_their_files(folder):
    words = "./join.py,input.orders=orders,input.customers=customers"
    count, join = measured_workload(mix_of("./count.py,input=texts", words), FLAT, 1).jobs
    assert count.input_bytes == (130 + 6 + 3) * 1000
    assert [stage.tasks for stage in count.stages] == [3, 1]
    assert [stage.files for stage in join.stages[:2]] == [
        (join.files[0].path,),
        (join.files[1].path,),
    ], "in the order of the stages, as a real run has them"
    assert join.files[0].path.endswith("/customers")


def test_a_mistake_in_a_job_that_is_measured_is_shown_with_its_line(folder):
    (folder / "words.py").write_text("def of(line):\n    return line.spilt()\n")
    with pytest.raises(UsageError, match=r"^count: words.py:2: AttributeError: .*spilt"):
        measured_workload(mix_of("./count.py,input=texts"), FLAT, 1)
