"""What is given twice is refused, wherever it is given: the last of the two wins nowhere."""

import click
import pytest

from railyard import compare, simulate
from railyard.cluster.errors import UsageError
from railyard.scripts.commands.registry import COMMANDS, railyard
from railyard.scripts.terminal.request import Command, Commands
from tests.command_line import command_line

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
