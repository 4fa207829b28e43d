"""A wrong command: exit status 2, and one line with what would be right."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

from railyard.cli.exitstatus import Status, status_of
from railyard.cluster import errors
from railyard.cluster.machine import Exhausted
from railyard.jobs.inputs import InputError
from railyard.resourcemanager.interface.decisions import InvalidDecision
from railyard.runs.figures import TooBusy
from railyard.runs.files import NotCopied
from railyard.runs.folder import NotWritten

SITE_R9 = ("--set", "centralized.site=r9")
TETRIUM = ("simulate", "--workload", "tetrium,jobs=1,sites=8", "--scheduler", "tetrium")

CASES = {
    "no such command": (["rnu", "terasort"], 'unknown command "rnu": did you mean "run"?'),
    "no such option": (["run", "terasort", "--sise", "1GB"], 'did you mean "--size"?'),
    "no such option of up": (["up", "--shceduler", "fair"], 'did you mean "--scheduler"?'),
    "option without value": (["up", "--scheduler"], "'--scheduler' requires an argument"),
    "surplus argument": (["down", "now"], "unexpected extra argument (now)"),
    "no such fs command": (["fs", "lss"], 'unknown fs command "lss": did you mean "ls"?'),
    "no such job": (["run", "terrasort"], 'unknown job "terrasort": did you mean "terasort"?'),
    "no such job of several": (["run", "terasort", "wordcont"], 'did you mean "wordcount"?'),
    "no such key of a job": (["run", "terasort,sise=1GB"], 'did you mean "size"?'),
    "no such key of a mix": (["run", "mix,job=3"], 'did you mean "jobs"?'),
    "output for several": (["run", "wordcount", "topwords", "--output", "/x"], "for a single job"),
    "nearly nothing to count": (["run", "wordcount,size=1"], "wordcount: size = 1: need at least"),
    "no such file": (["run", "./none.py"], "./none.py: no such file: need"),
    "no such scheduler": (["run", "terasort", "--scheduler", "deley"], 'did you mean "delay"?'),
    "no such flow scheduler": (["up", "--flow-scheduler", "maxmim"], 'did you mean "maxmin"?'),
    "a plan that is not there": (
        ["up", "--scheduler", "corral", "--set", "corral.plan=/none.toml"],
        "/none.toml: cannot be read: No such file",
    ),
    "no such kind of fault": (
        ["chaos", "wordcount", "--kinds", "kill,stpo"],
        'unknown kind of fault "stpo": did you mean "stop"?',
    ),
    "chaos without restarts": (
        ["chaos", "wordcount", "--restart", "never"],
        "--restart never: need on-failure",
    ),
    "no such topology": (["up", "--topology", "hybrid-8x5"], 'did you mean "hybrid-8x4"?'),
    "no such topology file": (["up", "--topology", "no.toml"], "no.toml: cannot be read"),
    "no such figure": (["up", "--network", "delt=1ms"], 'did you mean "delta"?'),
    "impossible figure": (["up", "--network", "background=2"], "need a share in [0, 1)"),
    "no such workload": (["simulate", "--workload", "coflows:x"], 'unknown workload "coflows"'),
    "no such scheduler to compare": (
        ["compare", "terasort", "--schedulers", "fair,deley"],
        'unknown scheduler "deley": did you mean "delay"?',
    ),
    "no such flow scheduler of a pair": (
        ["compare", "terasort", "--schedulers", "fair,delay + sfj"],
        'unknown flow scheduler "sfj": did you mean "sjf"?',
    ),
    "a pair without spaces": (
        ["simulate", "--workload", "terasort", "--scheduler", "delay+sjf"],
        'delay+sjf: need spaces around the plus: "delay + sjf"',
    ),
    "half a pair": (["run", "terasort", "--scheduler", "delay +"], "FLOW SCHEDULER"),
    "two flow schedulers": (
        ["up", "--scheduler", "delay + sjf", "--flow-scheduler", "varys"],
        '--flow-scheduler varys: "delay + sjf" has one: need one of the two',
    ),
    "setting of none of them": (
        ["compare", "terasort", "--schedulers", "fair", "--set", "delay.node_wait_s=3"],
        "delay.node_wait_s: is a setting of delay, ",
    ),
    "setting of another": (
        ["up", "--scheduler", "corral", "--set", "tetrium.rho=0.5"],
        "not of corral: need one of corral's (railyard schedulers --settings), or --scheduler",
    ),
    "a petabyte of maps": (
        ["simulate", "--workload", "terasort", "--size", "1PB"],
        "terasort: 1 PB are 3906250 maps: need at most 1000000",
    ),
    "a central site that is none": (
        ["up", "--topology", "flat-4x4", "--scheduler", "centralized", *SITE_R9],
        "centralized.site = 'r9': need \"\" or one of r0, r1, r2, r3",
    ),
    "a budget of more than all": (
        [*TETRIUM, "--set", "tetrium.rho=1.2"],
        "tetrium.rho = 1.2: need a number in [0, 1]",
    ),
    "a fault of no link": ([*TETRIUM, "--faults", "link:r9.up*0.5@1s"], 'unknown link "r9.up"'),
    "a fault of no node": (
        [*TETRIUM, "--faults", "slots:r9n0*0.5@1s"],
        "node = 'r9n0': need a node of the topology",
    ),
    "more skew than so many sites can have": (
        ["simulate", "--workload", "tetrium,sites=8,variation=3"],
        "variation = 3.0: need 0 to 2.65, that of 8 sites of which one has everything",
    ),
    "workload on the wall clock": (["compare", "corral-w1"], "need --clock virtual"),
    "workload beside a job": (["compare", "corral-w1", "terasort"], "need nothing beside it"),
    "nowhere to simulate": (["compare", "terasort", "--on", "dsk:x"], 'did you mean "dask"?'),
    "no trace": (
        ["simulate", "--workload", "coflow-benchmark:/no"],
        "/no: cannot be read: No such file or directory: railyard workloads fetch puts the",
    ),
    "no such benchmark": (["bench", "startupp"], 'did you mean "startup"?'),
    "impossible size": (["run", "terasort", "--size", "10GBit"], "need a size such as 10GB"),
    "negative size": (["run", "terasort", "--size", "-1"], "need a size such as 10GB"),
    "size of nothing": (["run", "terasort", "--size", "0"], "need at least"),
    "impossible seed": (["run", "terasort", "--seed", "x"], "'x' is not a valid integer"),
    "impossible number of reduces": (["run", "terasort", "--reduces", "0"], "not in the range"),
    "setting without value": (["up", "--set", "delay"], "--set delay: need KEY=VALUE"),
    "parameter without value": (["run", "wordcount", "--param", "x"], "need KEY=VALUE"),
    "two sources of input": (["run", "wordcount", "--input", "/x", "--size", "1GB"], "one of the"),
    "stored input without a cluster": (["run", "wordcount", "--input", "dfs:/x"], "no cluster"),
    "name of an input that has none": (
        ["run", "wordcount", "--input", f"x={__file__}"],
        "wordcount: its input has no name: need --input FILE",
    ),
    "tables without names": (
        ["run", "query", "--input", __file__],
        "query: reads rankings, uservisits: need --input rankings=FILE",
    ),
    "one table of two": (
        ["run", "query", "--input", f"rankings={__file__}"],
        "query: reads rankings, uservisits: need --input uservisits=FILE",
    ),
    "no such table": (
        ["run", "query", "--input", f"ranking={__file__}", "--input", f"uservisits={__file__}"],
        'unknown input of query "ranking": did you mean "rankings"?',
    ),
    "output with dots": (["run", "wordcount", "--output", "/a/../b"], "write the whole path"),
    "result in no folder": (["run", "terasort", "--json", "/no/x.json"], "in a folder that exists"),
    "rate of 5000 digits": (["up", "--network", f"nic={'9' * 5000}Gbps"], "need a rate such as"),
    "impossible capacity": (["up", "--network", "oversubscription=1e308"], "at most 10**6"),
    "senseless replication": (
        ["up", "--network", "storage.replication=1000000"],
        "storage.replication = 1000000: need at most 32, the number of nodes",
    ),
    "size of a million data centres": (["run", "terasort", "--size", "999999999PB"], "1000PB"),
    "size beyond the disk": (["run", "terasort", "--size", "1000PB"], "takes about 7 PB of real"),
    "sizes beyond the disk": (["compare", "terasort", "--size", "1000PB"], "takes about 7 PB of"),
    "racks without end": (
        ["up", "--network", "racks.count=10000"],
        "has 10000 racks, with two processes each: need at most 1000, or railyard simulate",
    ),
    "jobs without end": (["run", "mix,jobs=1000000000"], "jobs: need a whole number <= 10000"),
    "reduces without end": (["run", "terasort", "--reduces", "1000000000"], "not in the range"),
    "more reduces than records": (
        ["run", "terasort", "--size", "1MB", "--reduces", "99"],
        "reduces = 99: the input has 10 records",
    ),
    "the root as output": (["run", "wordcount", "--output", "/"], "--output /: exists already"),
    "no UTF-8 as a file": (["up", "--topology", "\udcff.toml"], "\\xff.toml: cannot be read"),
    "no UTF-8 as a job": (["run", "\udcff.py"], "\\xff.py: no such file"),
    "no UTF-8 as a user": (["run", "terasort", "--user", "\udcff"], "letters that can be read"),
    "no UTF-8 as input": (["run", "wordcount", "--input", "dfs:/\udcff"], "no cluster is up"),
    "a line forged by a name": (["run", "x\nrailyard: all is well\x1b[2J"], "x\\nrailyard: all"),
    "a device as trace": (["simulate", "--workload", "swim:/dev/zero"], "a pipe or a device"),
    "no cluster for fs": (["fs", "ls"], "no cluster is up: railyard up starts one"),
    "no cluster for status": (["status"], "no cluster is up: railyard up starts one"),
    "no cluster for slots": (["slots", "show"], "no cluster is up: railyard up starts one"),
    "no cluster for down": (["down"], "no cluster is up: railyard up starts one"),
}


#: {command: its first case}: tried as people do, in a process of its own
PROCESSES = {arguments[0]: arguments for arguments, _ in reversed(CASES.values())}


@pytest.mark.parametrize(("arguments", "words"), CASES.values(), ids=CASES)
def test_wrong_command(railyard, arguments, words):
    is_first = arguments is PROCESSES[arguments[0]]
    done = railyard.run(*arguments) if is_first else railyard.call(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert words in done.stderr
    assert railyard.nothing_left()


INPUTS = {
    "missing": (["wordcount", "--input", "/none"], "/none: cannot be read: No such file"),
    "no file": (["wordcount", "--input", "/dev/null"], "/dev/null: is not a file"),
    "empty": (["wordcount", "--input", "EMPTY"], "is empty: need at least one line"),
    "a record cut short": (
        ["terasort", "--input", "SHORT"],
        "the record at offset 200 is cut short: 50 of 100",
    ),
    "a table of other columns": (
        ["query", "--input", "rankings=RANKS", "--input", "uservisits=RANKS"],
        "RANKS:1: 3 columns: need the 9 of uservisits: sourceIP, destURL, visitDate, adRevenue",
    ),
    "a row of other columns": (
        ["query", "--input", "rankings=NAMES", "--input", "uservisits=RANKS"],
        'NAMES:2: pageRank is "high": need a whole number below 2**31',
    ),
}


@pytest.mark.parametrize(("arguments", "words"), INPUTS.values(), ids=INPUTS)
def test_wrong_input(railyard, tmp_path, arguments, words):
    (tmp_path / "EMPTY").touch()
    (tmp_path / "SHORT").write_bytes(bytes(250))
    (tmp_path / "RANKS").write_text("a.example,1,2\n")
    (tmp_path / "NAMES").write_text("a.example,1,2\nb.example,high,2\n")
    done = railyard.call("run", *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert words in done.stderr
    assert railyard.nothing_left()


def test_wrong_topology_file_names_the_place(railyard, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\n[racks]\ncount = 2\nnodes = 2\n[links]\nnick = "1Gbps"\n')
    done = railyard.run("up", "--topology", file)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert 'mine.toml: unknown key "links.nick": did you mean "links.nic"?' in done.stderr


def test_fs_alone_shows_its_commands(railyard):
    done = railyard.run("fs")
    assert done.returncode == 2
    assert "locations  Show on which nodes" in done.stderr


def test_help_needs_no_cluster_and_no_heavy_import(railyard):
    code = "import sys, railyard.cli.main; print('numpy' in sys.modules, 'rich' in sys.modules)"
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", code], env=railyard.environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "False"]
    assert "run " in railyard.ok("--help")


# Each kind of failure has its exit status, the one in ``docs/exit-status.md``.


KINDS = {
    errors.RailyardError("a job failed"): Status.FAILED,
    errors.Refused("no such queue"): Status.FAILED,
    InputError("no such file"): Status.FAILED,
    errors.UsageError("no such option"): Status.USAGE,
    errors.ClusterFailed("the NameNode died"): Status.CLUSTER,
    errors.PeerLost("no answer"): Status.CLUSTER,
    errors.NotDone("no room"): Status.MACHINE,
    Exhausted("no room"): Status.MACHINE,
    NotWritten("no room"): Status.MACHINE,
    NotCopied("no room"): Status.MACHINE,
    TooBusy("too busy"): Status.UNTRUSTED,
    OSError(errno.EMFILE, "too many open files"): Status.MACHINE,
    OSError(errno.EACCES, "not expected here"): Status.BUG,
    errors.InvariantError("a slot is held twice"): Status.BUG,
    InvalidDecision("no such task"): Status.BUG,
    ZeroDivisionError(): Status.BUG,
}


@pytest.mark.parametrize(("error", "status"), KINDS.items(), ids=map(repr, KINDS))
def test_each_kind_of_error_has_its_status(error, status):
    assert status_of(error) is status


def test_the_page_has_every_status():
    page = (Path(__file__).parents[2] / "docs" / "exit-status.md").read_text()
    listed = re.findall(r"^\| (\d+)\D", page, re.MULTILINE)
    assert [int(number) for number in listed] == list(Status)


def test_a_result_that_cannot_be_written_is_the_machines_fault(railyard):
    done = railyard.run(
        *("simulate", "--workload", "terasort", "--size", "1GB", "--json", "/dev/full")
    )
    assert done.returncode == Status.MACHINE
    assert "no space left on" in done.stderr


def test_a_bug_shows_its_traceback(railyard):
    code = """
import click
from railyard.cli import main
from railyard.cli.commands import registry
registry.railyard = click.command()(lambda: 1 / 0)
main.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=railyard.environment, capture_output=True, text=True
    )
    assert done.returncode == Status.BUG
    assert "ZeroDivisionError" in done.stderr
