"""--behaviour and --faults: each key and kind changes a simulated run, or is refused by name."""

from __future__ import annotations

import re

import click
import msgspec
import pytest

from docs.reference_pages import TABLES
from railyard import compare, simulate
from railyard.cli.commands.registry import COMMANDS, railyard
from railyard.cluster.acceptance import Effect, declared
from railyard.cluster.errors import UsageError
from railyard.cluster.faults import FAULTS
from railyard.cluster.inputfile import build
from railyard.cluster.topology import load_topology
from railyard.simulator.behaviour import Behaviour
from railyard.simulator.faults import parse_faults
from railyard.terminal.options import Command, Commands
from tests.accepted.smallrun import small_run
from tests.command_line import command_line

#: {key: (keys that it needs beside it, its value)}
KEYS = {
    "variance": ({}, 0.3),
    "stragglers": ({}, 0.5),
    "straggler_factor": ({"stragglers": 0.5}, 9.0),
    "failures": ({}, 0.3),
    "launch_s": ({}, "1s"),
    "fetch_s": ({}, "1s"),
    "end_s": ({}, "1s"),
    "progress_s": ({"stragglers": 0.3}, "9s"),
    "output_block": ({}, "500MB"),
    "together_s": ({}, "3s"),
}
#: {kind: faults of it}
KINDS = {
    "node": "node:r0n1@1s+2s",
    "rack": "rack:r2@1s",
    "slow": "slow:r1n0*4@0s+9s",
    "link": "link:r1.up*0.1@0s",
    "slots": "slots:r1n0*2@0s",
    "blocks": "blocks:r0n0@0.1s,blocks:r0n1@0.1s,blocks:r0n2/1@0.1s",
}
#: Stragglers are copied, as their reports of progress say.
TOPOLOGY = msgspec.structs.replace(
    load_topology("flat-4x4,storage.replication=2,storage.block=64MB"),
    settings={"speculation.on": True, "speculation.after_s": 0.1},
)


@pytest.mark.parametrize("key", KEYS)
def test_each_key_of_the_behaviour_changes_a_run(key):
    beside, value = KEYS[key]
    without = _finished(build(beside, Behaviour, "--behaviour"))
    assert _finished(build({**beside, key: value}, Behaviour, "--behaviour")) != without


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_changes_a_run(kind):
    assert _finished(faults=KINDS[kind]) != _finished()


def _finished(behaviour=None, faults=""):
    """When the run's jobs end, and what they did; not how often the network was looked at."""
    run = small_run(TOPOLOGY, faults, behaviour)
    return {key: run[key] for key in ("makespan_s", "jobs", "tasks", "slot_utilization", "bytes")}


def test_each_name_has_a_probe():
    keys = declared("", "", Behaviour)
    assert set(keys.named(Effect.USED)) == set(keys.entries) == set(KEYS)
    assert set(FAULTS.named(Effect.USED)) == set(FAULTS.entries) == set(KINDS)
    assert {"nodes of a simulation: --behaviour", FAULTS.interface} <= {
        table.interface for table in TABLES
    }


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ({"variences": 1}, 'unknown key "variences": did you mean "variance"'),
        ({"stragglers": 0.1, "straggler_factor": 1.0}, "stragglers: changes nothing here: need"),
        ({"straggler_factor": 3.0}, "straggler_factor: changes nothing here: need stragglers"),
    ],
)
def test_a_key_without_an_effect_is_refused(given, right):
    with pytest.raises(UsageError, match=f"^--behaviour: {right}"):
        build(given, Behaviour, "--behaviour")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("slw:r0n0*4@1s", 'unknown fault "slw": did you mean "slow"'),
        ("link:r0.up*1.0@1s", r"factor = 1\.0: need another number than 1"),
        ("slots:r0n0*1@1s", r"factor = 1\.0: need another number than 1"),
        ("node:r0n0@1s+0s", r"lasts = 0\.0: need a time above 0"),
    ],
)
def test_a_fault_without_an_effect_is_refused(text, right):
    with pytest.raises(UsageError, match=f"^--faults {re.escape(text)}: {right}"):
        parse_faults(text, TOPOLOGY, 60.0)


# What is given twice is refused, wherever it is given: the last of the two wins nowhere.


SIMULATE = ("simulate", "--workload", "terasort", "--size", "1GB")
COMPARE = ("compare", "terasort", "--clock", "virtual", "--size", "1GB")
CASES = {
    "--set": (*COMPARE, "--set", "delay.node_wait_s=0", "--set", "delay.node_wait_s=1"),
    "--network": (*SIMULATE, "--network", "oversubscription=3", "--network", "oversubscription=6"),
    "--network by two names": (*SIMULATE, "--network", "nic=1Gbps", "--network", "links.nic=2Gbps"),
    "--network of a link": (*SIMULATE, "--network", "r1.up=1Gbps", "--network", "R1.up=2Gbps"),
    "of a topology": (*SIMULATE, "--topology", "flat-4x4,nic=1Gbps,nic=2Gbps"),
    "of both": (*SIMULATE, "--topology", "flat-4x4,nic=1Gbps", "--network", "nic=2Gbps"),
    "--behaviour": (*SIMULATE, "--behaviour", "launch_s=1", "--behaviour", "launch_s=2"),
    "--faults": (*SIMULATE, "--faults", "node:r0n1@1s+2s,node:r0n1@1s+2s"),
    "--schedulers": (*COMPARE, "--schedulers", "fair,fair"),
    "a pair": (*COMPARE, "--schedulers", "fair,fair + maxmin"),
    "--scheduler": (*SIMULATE, "--scheduler", "fair", "--scheduler", "fair"),
    "--flow-scheduler": (*SIMULATE, "--flow-scheduler", "sjf", "--flow-scheduler", "sjf"),
    "--seed": (*SIMULATE, "--seed", "1", "--seed", "2"),
    "--topology": (*SIMULATE, "--topology", "flat-4x4", "--topology", "hybrid-8x4"),
    "--workload": (*SIMULATE, "--workload", "wordcount"),
    "of a workload": ("simulate", "--workload", "corral-w1,jobs=1,jobs=2"),
    "of a mix": ("simulate", "--workload", "terasort,size=1GB,size=2GB"),
    "of a job's parameter": ("run", "grep", "--param", "pattern=a", "--param", "pattern=b"),
}


@pytest.fixture(scope="module", name="railyard_command")
def _railyard():
    yield from command_line()


@pytest.mark.parametrize("words", CASES.values(), ids=CASES)
def test_given_twice(railyard_command, words):
    done = railyard_command.call(*words)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert "is given twice: need it once" in line


@pytest.mark.parametrize(
    ("changes", "right"),
    [
        (("uplink=1Gbps", "oversubscription=4"), "both say what links carry: need one of the two"),
        (("oversubscription=4", "downlink=1Gbps"), "need one of the two"),
        (("r1.up=1Gbps", "uplink=2Gbps"), "is before links.uplink=2Gbps, which would undo it"),
        (("delta=1ms", "ocs=off"), "which would undo it"),
    ],
)
def test_a_change_that_another_would_undo_is_refused(railyard_command, changes, right):
    options = [word for change in changes for word in ("--network", change)]
    done = railyard_command.call(*SIMULATE, "--topology", "hybrid-8x4", *options)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert right in line


def test_all_racks_but_one(railyard_command):
    options = ("--network", "uplink=2Gbps", "--network", "r1.up=1Gbps")
    assert railyard_command.call(*SIMULATE, "--topology", "hybrid-8x4", *options).returncode == 0


def test_from_python():
    with pytest.raises(UsageError, match=r"fair \+ maxmin: is given twice"):
        compare("terasort", schedulers=["fair", "delay", "fair"], clock="virtual", size="1GB")
    with pytest.raises(UsageError, match=r"links\.nic: is given twice"):
        simulate("terasort", network={"nic": "1Gbps", "links.nic": "2Gbps"}, size="1GB")


def test_each_command_looks_for_options_that_are_given_twice():
    with click.Context(railyard) as context:
        found = [railyard.get_command(context, name) for name in COMMANDS]
        while found:
            command = found.pop()
            if isinstance(command, click.Group):
                assert isinstance(command, Commands)
                found += command.commands.values()
            else:
                assert isinstance(command, Command), command.name
