"""docs/tutorials/write-a-scheduler.md as a reader follows it: what it shows is run here."""

from __future__ import annotations

import json
import linecache
import re
import sys
from collections import Counter, defaultdict
from types import ModuleType

import pytest

from railyard.jobs.local import run_locally
from railyard.jobs.package import load_job, pack_file
from tests.command_line import ROOT, SMALL
from tests.integration.tutorials import own_tests_pass

PAGE = "tutorials/write-a-scheduler.md"


@pytest.mark.parametrize("package", [PAGE], indirect=True)
def test_the_scheduler_is_listed_and_runs_a_job(railyard, package):
    said = railyard.ok("schedulers")
    assert "shortest\n    the tutorial\n    --set shortest.patience_s" in said
    said = railyard.ok(
        *("run", "topwords", "--size", "100MB", "--topology", SMALL),
        *("--scheduler", "shortest", "--set", "shortest.patience_s=30"),
    )
    assert "scheduler shortest" in said
    assert "as counted independently" in said


@pytest.mark.parametrize("package", [PAGE], indirect=True)
def test_the_scheduler_that_proposes_copies_tasks(railyard, package, tmp_path):
    railyard.ok(
        *("run", "topwords", "--size", "100MB", "--topology", SMALL),
        *("--scheduler", "clones", "--json", tmp_path / "summary.json"),
    )
    assert json.loads((tmp_path / "summary.json").read_text())["tasks"]["copies"] > 0


@pytest.mark.parametrize("package", [PAGE], indirect=True)
def test_its_settings_are_checked_before_anything_starts(railyard, package):
    done = railyard.run(
        "run", "terasort", "--scheduler", "shortest", "--set", "shortest.patience_s=-1"
    )
    assert done.returncode == 2
    assert "shortest.patience_s = -1" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("package", [PAGE], indirect=True)
def test_its_own_tests_pass(railyard, package):
    own_tests_pass(package, railyard.environment, 5)


@pytest.mark.parametrize("package", [PAGE], indirect=True)
def test_a_package_that_cannot_be_loaded_is_told_in_one_line(railyard, package):
    (package / "shortest.py").write_text("import no_such_thing\n")
    done = railyard.run("schedulers")
    assert done.returncode == 2
    assert done.stderr == (
        'railyard: scheduler "shortest" (shortest:RECIPE) cannot be loaded: '
        "ModuleNotFoundError: No module named 'no_such_thing'\n"
    )


# docs/tutorials/write-a-flow-scheduler.md as a reader follows it: what it shows is run here.


FLOW_SCHEDULER_PAGE = "tutorials/write-a-flow-scheduler.md"


@pytest.mark.parametrize("package", [FLOW_SCHEDULER_PAGE], indirect=True)
def test_the_flow_scheduler_is_listed_and_runs_jobs_in_both_clocks(railyard, package):
    lines = railyard.ok("schedulers").splitlines()
    [listed] = [line for line in lines if line.startswith("flow schedulers: ")]
    assert "smallest" in " ".join(listed.split()).split(", ")
    flows = ("--flow-scheduler", "smallest")
    said = railyard.ok("simulate", "--workload", "mix,jobs=3", *flows)
    assert "flows smallest" in said
    said = railyard.ok("run", "topwords", "--size", "100MB", "--topology", SMALL, *flows)
    assert "flows smallest" in said
    assert "as counted independently" in said


@pytest.mark.parametrize("package", [FLOW_SCHEDULER_PAGE], indirect=True)
def test_its_own_test_passes(railyard, package):
    own_tests_pass(package, railyard.environment, 1)


@pytest.mark.parametrize("package", [FLOW_SCHEDULER_PAGE], indirect=True)
@pytest.mark.parametrize(
    ("source", "what"),
    [
        pytest.param(
            "import no_such_thing\n",
            " (smallest:SmallestFirst) cannot be loaded: "
            "ModuleNotFoundError: No module named 'no_such_thing'",
            id="it cannot be imported",
        ),
        pytest.param(
            "SmallestFirst = 'fast'\n",
            " of smallest:SmallestFirst is 'fast', no subclass of FlowScheduler",
            id="it is something else",
        ),
        pytest.param(
            "from railyard.netemu.schedulers.fifo import Fifo as SmallestFirst\n",
            ' "fifo" is there twice: in railyard and smallest:SmallestFirst',
            id="its name is taken",
        ),
    ],
)
def test_a_package_that_cannot_be_used_is_reported_in_one_line(railyard, package, source, what):
    (package / "smallest.py").write_text(source)
    done = railyard.run("schedulers")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert what in done.stderr


# docs/tutorials/write-a-circuit-policy.md as a reader follows it: what it shows is run here.


CIRCUIT_POLICY_PAGE = "tutorials/write-a-circuit-policy.md"


@pytest.mark.parametrize("package", [CIRCUIT_POLICY_PAGE], indirect=True)
def test_the_circuit_policy_runs_jobs_in_both_clocks(railyard, package):
    flows = ("--flow-scheduler", "largest")
    said = railyard.ok("simulate", "--workload", "mix,jobs=3", *flows)
    assert "flows largest" in said
    said = railyard.ok("run", "terasort", "--size", "3GB", *flows)
    assert "flows largest" in said


@pytest.mark.parametrize("package", [CIRCUIT_POLICY_PAGE], indirect=True)
def test_the_circuit_policys_own_tests_pass(railyard, package):
    own_tests_pass(package, railyard.environment, 2)


# ``examples/study.ipynb``, cell by cell, as a notebook runs it.


NOTEBOOK = ROOT / "examples" / "study.ipynb"


def cells():
    """The text of each cell of code."""
    made = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in made if cell["cell_type"] == "code"]


def shown(source, name, names):
    """Run a cell; the value of the expression at its end, which a notebook shows."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    *lines, last = source.splitlines(keepends=True)
    try:
        value = compile(last, name, "eval")
    except SyntaxError:
        exec(compile(source, name, "exec"), names)
        return None
    exec(compile("".join(lines), name, "exec"), names)
    return eval(value, names)


def test_a_study_in_thirty_lines(railyard, monkeypatch, capfd):
    pytest.importorskip("pandas", reason="pip install railyard[pandas]")
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setenv("RAILYARD_HOME", str(railyard.home))
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # workers cost more to start than they save
    monkeypatch.chdir(NOTEBOOK.parent)
    sources = cells()
    values = []
    for number, source in enumerate(sources):
        values.append(shown(source, f"<cell {number} of study>", vars(main)))
    assert sum(bool(line.strip()) for source in sources for line in source.splitlines()) <= 30
    _, run, frame, cdf, bars, said = values
    text = " ".join(path.read_text() for path in ROOT.glob("*.md"))
    words = {word.lower() for word in text.split() if len(word) >= 12}
    assert {line.split("\t")[0] for line in main.counted} == words
    assert run.ok
    assert "long_words" in run._repr_html_()
    assert sorted(set(zip(frame.scheduler, frame.clock, strict=True))) == sorted(
        (scheduler, clock)
        for scheduler in ("fair", "delay", "local-shuffle", "shufflewatcher")
        for clock in ("wall", "virtual")
    )
    assert (frame.makespan_s > 0).all()
    assert all(picture._repr_png_().startswith(b"\x89PNG") for picture in (cdf, bars))
    assert len(said) == 6
    assert capfd.readouterr() == ("", "")
    assert railyard.nothing_left()


# The examples: each job in this process and on a cluster, and the homework in virtual time.


EXAMPLES = ROOT / "examples"
DATA = EXAMPLES / "data"
#: {example: {name of an input, "" if it has no name: its file}}
INPUTS = {
    "inverted_index": {"": "documents.txt"},
    "join": {"orders": "orders.csv", "customers": "customers.csv"},
    "page_rank": {"": "links.txt"},
}


def lines_of(example: str, reduces: int = 2, **params: str) -> list[str]:
    """Sorted lines of an example's output, run in this process in splits of 64 bytes."""
    inputs = INPUTS[example]
    job = load_job(pack_file(EXAMPLES / f"{example}.py", params=params))
    files = {file: (DATA / file).read_bytes() for file in inputs.values()}
    named = {name: [file] for name, file in inputs.items() if name}
    run = run_locally(job, files, reduces, split_bytes=64, inputs=named)
    return sorted(line for part in run.outputs.popitem()[1] for line in part.decode().splitlines())


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(INPUTS)
    assert {path.name for path in DATA.iterdir()} == {
        file for files in INPUTS.values() for file in files.values()
    }


def test_inverted_index():
    documents = [line.split("\t") for line in (DATA / "documents.txt").read_text().splitlines()]
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for title, text in documents:
        for word in re.findall(r"\w{3,}", text.lower()):
            counted[word][title] += 1
    assert lines_of("inverted_index") == sorted(
        f"{word}\t"
        + " ".join(f"{t}:{n}" for t, n in sorted(c.items(), key=lambda i: (-i[1], i[0])))
        for word, c in counted.items()
    )
    assert not any(line.startswith("has\t") for line in lines_of("inverted_index", min_letters="4"))


def test_join():
    joined = ["c1 Ada\to1\t12.50", "c1 Ada\to3\t99.90", "c2 Grace\to2\t3.00", "c3 Edsger\t-\t0.00"]
    assert lines_of("join") == joined
    assert lines_of("join", outer="false") == [line for line in joined if "Edsger" not in line]


@pytest.mark.parametrize("rounds", [1, 3, 20])
def test_page_rank(rounds):
    links = {
        page: targets
        for page, *targets in map(str.split, (DATA / "links.txt").read_text().splitlines())
    }
    ranks = dict.fromkeys(links, 1.0)
    for _ in range(rounds):
        ranks = {
            page: 0.15 + 0.85 * sum(ranks[o] / len(to) for o, to in links.items() if page in to)
            for page in ranks
        }
    found = dict(line.split("\t") for line in lines_of("page_rank", rounds=str(rounds)))
    assert {page: float(rank) for page, rank in found.items()} == pytest.approx(ranks, abs=1e-6)


def test_rounds_run_on_a_cluster_as_they_do_here(railyard, tmp_path):
    given = ("--input", DATA / "links.txt", "--get", tmp_path / "ranks")
    railyard.ok("run", EXAMPLES / "page_rank.py", *given, "--topology", SMALL, "--reduces", "2")
    parts = sorted((tmp_path / "ranks").glob("part-*"))
    found = sorted(line for part in parts for line in part.read_text().splitlines())
    assert found == lines_of("page_rank")
    assert railyard.nothing_left()


def test_the_homework_as_its_sheet_says(railyard):
    sheet = (EXAMPLES / "homework" / "README.md").read_text()
    [line] = re.findall(r"^    scripts/(compare .*) --out homework-out$", sheet, re.M)
    assert "--seeds 10" in line
    printed = railyard.ok(*line.replace("--seeds 10", "--seeds 2").split(), cwd=ROOT)
    assert "against capacity" in printed
    for scheduler in ("fair", "delay"):  # each is measured against the first one
        assert re.search(rf"^{scheduler} +makespan .* to ", printed, re.M)
