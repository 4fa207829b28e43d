"""A task that is stuck is copied on a real cluster, and the job ends without it."""

import json
import textwrap

import pytest

from tests.command_line import SMALL

STUCK_S = 80

JOB = """
import os, time

def stall_once():
    try:
        os.close(os.open({marker!r}, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    time.sleep({stuck_s})

def map(line):
    if line.startswith("stuck"):
        stall_once()
    yield line.split()[0], 1

def reduce(key, values):
    yield key, sum(values)
"""


@pytest.mark.parametrize("after_s", [2, 8])  # 8: nothing has happened for seconds by then
def test_a_stuck_task_is_copied_and_its_copy_counts(railyard, tmp_path, after_s):
    job = JOB.format(marker=str(tmp_path / "marker"), stuck_s=STUCK_S)
    (tmp_path / "stalling.py").write_text(textwrap.dedent(job))
    lines = [f"word{number % 7} and more of a line\n" for number in range(40_000)]
    (tmp_path / "text").write_text("".join(lines) + "stuck here\n")
    railyard.ok(
        *("run", "./stalling.py", "--input", "text", "--topology", SMALL, "--get", "out"),
        *("--reduces", "2", "--json", "summary.json"),
        *("--set", "speculation.on=true", "--set", f"speculation.after_s={after_s}"),
        *("--set", "shuffle.slowstart=1"),  # no reduce is launched, nor reports
        cwd=tmp_path,
    )
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["tasks"]["copies"], summary["tasks"]["copies_chosen"]) == (1, 1)
    assert summary["makespan_s"] < STUCK_S
    counts = "".join(part.read_text() for part in (tmp_path / "out").glob("part-*"))
    assert sum(int(line.split()[1]) for line in counts.splitlines()) == 40_001
    assert "stuck\t1" in counts
