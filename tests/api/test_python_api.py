"""``import railyard``: simulations and comparisons from Python, their results and pictures."""

from __future__ import annotations

import json
import linecache
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import railyard
from railyard.api.arguments import job_word, job_words
from railyard.api.results import run_of
from railyard.experiments.statements import Verdict
from railyard.jobs.package import load_job, pack_file

SMALL = {"topology": "flat-4x4", "size": "500MB"}


@pytest.fixture(autouse=True, scope="module")
def one_process():
    """Simulates in this process: workers cost more to start than they save."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")
        yield


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    out = tmp_path_factory.mktemp("compared") / "out"
    return railyard.compare(
        "terasort",
        "wordcount,submit=1s",
        schedulers="fair,delay + sjf",
        clock="virtual",
        seeds=2,
        out=out,
        **SMALL,
    )


def test_the_name_is_quick_and_jobs_do_not_import_the_command_line():
    code = (
        "import sys; import railyard; from railyard import Job, Lines, Stage, Map, Reduce\n"
        "print([name for name in sys.modules if name.startswith('railyard.cli')\n"
        "       or name in ('click', 'rich', 'numpy', 'matplotlib', 'pandas')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_all_names_are_there():
    for name in railyard.__all__:
        assert getattr(railyard, name) is not None
        assert name in dir(railyard)
    assert sorted(railyard._MODULE_OF) == railyard.__all__
    assert not hasattr(railyard, "simulat")


def test_a_simulation_prints_nothing_and_is_that_of_the_command(railyard_, capfd):
    run = railyard.simulate("terasort", scheduler="delay", seed=3, **SMALL)
    assert capfd.readouterr() == ("", "")
    file = railyard_.home / "summary.json"
    options = ("--scheduler", "delay", "--seed", "3", "--topology", "flat-4x4", "--size", "500MB")
    railyard_.call("simulate", "--workload", "terasort", *options, "--json", file)
    said = json.loads(file.read_text())
    for key in ("makespan_s", "jct_s", "cct_s", "bytes", "tasks", "jobs"):
        assert run.summary[key] == said[key], key
    assert run.jct_s.p95 == said["jct_s"]["p95"]
    assert run.bytes.cross_rack == said["bytes"]["cross_rack"]
    assert run.jobs[0].jct_s == said["jobs"][0]["jct_s"]
    assert (run.ok, run.trusted, run.verified, run.fidelity) == (True, True, None, None)


def test_every_key_of_a_job_is_a_field():
    run = railyard.simulate("terasort", **SMALL)
    assert set(run.summary["jobs"][0]) <= set(type(run.jobs[0]).__struct_fields__)


def test_progress_is_shown_if_it_is_wanted(capfd):
    study = {"schedulers": ["fair"], "clock": "virtual", "seeds": 2, **SMALL}
    railyard.compare("terasort", progress=True, **study)
    said = capfd.readouterr()
    assert said.out == ""
    assert "simulated 2 of 2 runs" in said.err


def test_a_setting_without_effect_is_a_warning_at_the_call():
    with pytest.warns(railyard.Advice, match="no optical switch") as found:
        railyard.simulate("terasort", flow_scheduler="sunflow", **SMALL)
    assert found[0].filename == __file__


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"scheduler": "deley"}, 'unknown scheduler "deley": did you mean "delay"'),
        ({"topology": "flat"}, "flat-4x4"),
        ({"size": "much"}, "size = 'much': need a size such as 10GB"),
        ({"seed": -1}, "seed = -1: need a whole number"),
        ({"reduces": 0}, "reduces = 0: need a whole number from 1 on"),
        ({"behaviour": {"stragler": 1}}, 'unknown key "stragler"'),
        ({"settings": {"delay.wait": 1}}, 'unknown scheduler option "delay.wait"'),
        ({"out": "/nowhere/at/all"}, "out = /nowhere/at/all: need a new folder"),
        ({"faults": "fire"}, "fire"),
    ],
)
def test_mistakes_are_errors_of_one_line(wrong, words):
    with pytest.raises(railyard.UsageError) as error:
        railyard.simulate("terasort", **SMALL | wrong)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ((), "jobs: need at least one"),
        ((3,), "job 3: need a name, a file, or a class of railyard.Job"),
        (("terrasort",), 'did you mean "terasort"'),
        (("terasort", "corral-w1"), "corral-w1: is a whole workload: need nothing beside it"),
    ],
)
def test_jobs_that_there_are_not(jobs, words):
    with pytest.raises(railyard.UsageError, match=words):
        railyard.simulate(*jobs, **SMALL)


@pytest.mark.parametrize("none", [(), "", [" "]])
def test_a_comparison_of_no_schedulers_is_refused(none):
    with pytest.raises(railyard.UsageError, match="schedulers: there is none: need names"):
        railyard.compare("terasort", schedulers=none)


def test_a_comparison_has_typed_runs_and_statements(compared):
    assert [(run.scheduler, run.flow_scheduler, run.seed) for run in compared.runs] == [
        ("fair", "maxmin", 1),
        ("fair", "maxmin", 2),
        ("delay", "sjf", 1),
        ("delay", "sjf", 2),
    ]
    assert compared.ok
    run = compared.run("delay + sjf", seed=2)
    assert run is compared.runs[3]
    assert run is compared.run("delay", clock="virtual", seed=2)
    assert run.folder is not None
    assert (run.folder / "summary.json").is_file()
    with pytest.raises(railyard.UsageError, match=r"there are: fair virtual with seed 1"):
        compared.run("delay", clock="wall")
    assert {one.who.scheduler for one in compared.statements} == {"delay"}
    assert {one.verdict for one in compared.statements} <= {Verdict.SAME, Verdict.CHANCE}
    assert all(one.words.count("\n") == 0 for one in compared.statements)


def test_data_frames_have_a_row_for_each(compared):
    pytest.importorskip("pandas", reason="pip install railyard[pandas]")
    runs, jobs, said = (compared.to_pandas(of) for of in ("runs", "jobs", "statements"))
    assert (len(runs), len(jobs), len(said)) == (4, 8, len(compared.statements))
    first = compared.runs[0]
    assert runs.loc[0, "jct_s_mean"] == first.jct_s.mean
    assert runs.loc[0, "bytes_cross_rack"] == first.bytes.cross_rack
    assert list(jobs[jobs.seed == 2].name) == ["terasort", "wordcount"] * 2
    assert first.to_pandas().equals(jobs[:2])
    assert list(railyard.topologies().to_pandas().name) == list(railyard.topologies())
    assert railyard.schedulers().to_pandas().set_index("name").loc["corral", "flow_scheduler"]
    with pytest.raises(railyard.UsageError, match="need runs, jobs or statements"):
        compared.to_pandas("job")


def test_without_pandas_it_says_what_to_install(compared, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(railyard.UsageError, match=r"pip install railyard\[pandas\]"):
        compared.to_pandas()


def test_pictures_are_shown_and_saved(compared, tmp_path):
    run = compared.run("fair")
    assert len(run.timeline().figure().axes) > 1  # it has its files: slots and links, too
    assert len(run_of(run.summary).timeline().figure().axes) == 1
    assert compared.bars("makespan_s")._repr_png_().startswith(b"\x89PNG")
    compared.cdf().save(tmp_path / "cdf.svg", dark=True)
    assert "<svg" in (tmp_path / "cdf.svg").read_text()
    with pytest.raises(railyard.UsageError, match=r"ends with \.png or \.svg"):
        run.cdf().save(tmp_path / "cdf.pdf")
    with pytest.raises(railyard.UsageError, match="unknown metric"):
        compared.bars("speed")


def test_a_comparison_is_shown_as_the_command_prints_it(compared, tmp_path):
    assert str(compared).startswith("terasort wordcount,submit=1s on flat-4x4\n")
    assert "against fair" in compared._repr_html_()
    assert "4 runs" in repr(compared)
    assert "<th" in compared.runs[0]._repr_html_()
    assert compared.folder is not None
    assert (compared.folder / "index.html").is_file()
    compared.save_json(tmp_path / "compared.json")
    assert len(json.loads((tmp_path / "compared.json").read_text())) == 2


def test_what_there_is():
    topologies, schedulers = railyard.topologies(), railyard.schedulers()
    assert (topologies["corral-7x30"].racks, topologies["hybrid-8x4"].has_circuits) == (7, True)
    assert schedulers["co-scheduler"].flow_scheduler == "sunflow"
    assert "delay.node_wait_s" in schedulers["delay"].settings
    assert "Zaharia" in schedulers._repr_html_()


@pytest.fixture(name="railyard_")
def command(railyard):
    return railyard


# Jobs from notebooks and scripts: what is shipped of them.


CELL = '''
import re
from collections import Counter as Count
import railyard

SEPARATORS = (",", ";")
PATTERN = re.compile("x")
limit = 3                                     # not used by the job

def split(line):
    for each in SEPARATORS:
        line = line.replace(each, " ")
    return shorten(line).split()

def shorten(line):
    return line if len(line) < 80 else split(line[:79])

class Base(railyard.Job):
    def reduce(self, word, counts):
        yield word, sum(counts)

class LongWords(Base):
    """Counts words."""

    min_letters: int = 8

    def map(self, line: str):
        limit = self.min_letters
        for word, number in Count(split(line)).items():
            if len(word) >= limit:
                yield word, number

class Matching(Base):
    def map(self, line: str):
        yield PATTERN.sub("", line), 1

if limit:
    class Inner(Base):
        """In a block."""

        def map(self, line: str):
            yield line, 1
'''


@pytest.fixture
def cell(monkeypatch):
    """The names of a notebook whose one cell this is."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    name = "<cell 1>"
    monkeypatch.setitem(linecache.cache, name, (len(CELL), None, CELL.splitlines(True), name))
    exec(compile(CELL, name, "exec"), main.__dict__)
    return main


def mapped(word, line):
    file, _, job_class = word.partition(",")[0].partition(":")
    params = dict(part.removeprefix("param.").split("=") for part in word.split(",")[1:])
    return list(load_job(pack_file(Path(file), job_class, params)).map(line))


def test_a_class_is_written_with_what_it_uses(cell, tmp_path):
    word = job_word(cell.LongWords(min_letters=4), tmp_path)
    assert word == f"{tmp_path}/long_words.py:LongWords,param.min_letters=4"
    assert mapped(word, "long,long;no longer") == [("long", 2), ("longer", 1)]
    source = (tmp_path / "long_words.py").read_text()
    assert "limit = 3" not in source
    assert "Matching" not in source
    assert source.index("class Base") < source.index("class LongWords")


def test_a_class_within_a_block(cell, tmp_path):
    assert mapped(job_word(cell.Inner, tmp_path), "a") == [("a", 1)]


def test_what_cannot_be_written_down_is_an_error_that_names_it(cell, tmp_path):
    with pytest.raises(railyard.UsageError, match="uses PATTERN, a Pattern: need it in a module"):
        job_word(cell.Matching, tmp_path)


def test_a_class_of_a_module_is_its_file(tmp_path):
    class Local(railyard.Job):
        pass

    word = job_word(Local, tmp_path)
    assert word == f"{__file__}:Local"
    assert list(tmp_path.iterdir()) == []


def test_parameters_that_no_word_can_have(cell, tmp_path):
    class Named(railyard.Job):
        text: str = ""
        raw: bytes = b""

    with pytest.raises(railyard.UsageError, match="text = 'a,b'"):
        job_word(Named(text="a,b"), tmp_path)
    with pytest.raises(railyard.UsageError, match="raw = b'x'"):
        job_word(Named(raw=b"x"), tmp_path)


def test_files_are_there_while_they_are_needed(cell):
    with job_words([cell.LongWords, "terasort"]) as asked_for:
        own, other = asked_for.words
        assert asked_for.plain(own) == "long_words.py:LongWords"
        file = Path(own.partition(":")[0])
        assert file.is_file()
        assert other == "terasort"
    assert not file.exists()
