"""What would be taken and change nothing is used, or refused by name."""

import json

import pytest

_SIZES = {"in": 700_000_000, "x": 300_000_000}
_WORKFLOW = {
    "name": "w",
    "workflow": {
        "specification": {
            "tasks": [{"name": "a", "id": "a", "inputFiles": ["in"], "outputFiles": ["x"]}],
            "files": [{"id": name, "sizeInBytes": size} for name, size in _SIZES.items()],
        }
    },
}


def _refused(railyard, *words):
    done = railyard.call(*words)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("options", "right"),
    [
        ("gap=100s", "gap: changes nothing here: need arrivals=poisson"),
        ("window=1h", "window: changes nothing here: need arrivals=uniform, poisson or trace"),
    ],
)
def test_case_19_an_option_that_another_switches_off(railyard, tmp_path, options, right):
    file = tmp_path / "w.json"
    file.write_text(json.dumps(_WORKFLOW))
    word = f"wfcommons:{file},jobs=3,{options}"
    assert right in _refused(railyard, "simulate", "--workload", word, "--topology", "flat-4x4")


def test_case_19_jobs_are_as_far_from_one_another_as_asked(railyard, tmp_path):
    file, summary = tmp_path / "w.json", tmp_path / "w-summary.json"
    file.write_text(json.dumps(_WORKFLOW))
    word = f"wfcommons:{file},jobs=40,arrivals=poisson,gap=100s"
    words = ("--workload", word, "--topology", "flat-4x4", "--json", summary)
    assert railyard.call("simulate", *words).returncode == 0
    lasted_s = json.loads(summary.read_text())["makespan_s"]
    assert 2000 < lasted_s < 6000, "about 40 gaps of 100 s"


def test_case_43_coflows_alone_have_no_options(railyard, tmp_path):
    trace = tmp_path / "a.txt"
    trace.write_text("2 1\nA 0 1 0 1 1:100\n")
    line = _refused(railyard, "simulate", "--workload", f"coflow-benchmark:{trace},jobs=1")
    assert "jobs=1: coflows alone have no options: need --first 1, or --scheduler" in line


@pytest.mark.parametrize(
    ("clock", "option", "needed"),
    [
        ("wall", ("--exact",), "virtual"),
        ("virtual", ("--strict",), "wall"),
        ("virtual", ("--durability", "safe"), "wall"),
    ],
)
def test_case_43_an_option_of_the_other_clock(railyard, clock, option, needed):
    line = _refused(railyard, "compare", "terasort", "--clock", clock, *option)
    assert f"{option[0]}: changes nothing here: need --clock {needed} or both" in line


def test_case_43_keys_of_tasks_for_coflows_alone(railyard, tmp_path):
    trace = tmp_path / "a.txt"
    trace.write_text("2 1\nA 0 1 0 1 1:100\n")
    options = ("--topology", "flat-4x4", "--network", "compute.map_rate=1MB/s")
    line = _refused(railyard, "simulate", "--workload", f"coflow-benchmark:{trace}", *options)
    assert "--network compute.map_rate: coflows alone have no tasks and files" in line


def test_case_44_a_rate_needs_its_unit(railyard, tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'name = "mine"\n[racks]\ncount = 2\nnodes = 1\n[links]\nnic = 125000000\nuplink = "1Gbps"\n'
    )
    line = _refused(railyard, "simulate", "--workload", "terasort", "--topology", mine)
    assert "links.nic = 125000000: need a rate such as 10Gbps (bits), 200MB/s (bytes)" in line
