"""Each kind of failure has its exit status, the one in ``docs/exit-status.md``."""

import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

from railyard.cluster import errors
from railyard.cluster.files.resources import Exhausted
from railyard.jobs.mixes.given import InputError
from railyard.resourcemanager.interface.decisions import InvalidDecision
from railyard.scripts.exitstatus import Status, status_of
from railyard.scripts.results.outputfile import NotWritten
from railyard.scripts.results.trust import TooBusy
from railyard.scripts.running.files import NotCopied

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
from railyard.scripts import main
from railyard.scripts.commands import registry
registry.railyard = click.command()(lambda: 1 / 0)
main.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=railyard.environment, capture_output=True, text=True
    )
    assert done.returncode == Status.BUG
    assert "ZeroDivisionError" in done.stderr
