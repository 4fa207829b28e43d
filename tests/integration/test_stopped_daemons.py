"""An emulator that is stopped (SIGSTOP) and goes on later: it is waited for, and nobody is blamed.

How long others are waited for is not the point here: that the emulator is waited for longer is
tested in ``tests/netemu``, with a patience that is short.
"""

import json
import os
import signal

from railyard.cluster.files.runfolder import RunFolder
from tests.waiting import wait_for


def test_jobs_wait_for_a_stopped_emulator_and_status_says_so(cluster, tmp_path):
    folder = RunFolder(cluster.current())
    [emulator] = [row["pid"] for row in folder.processes() if row["name"] == "network"]
    os.kill(emulator, signal.SIGSTOP)  # before others have connected to it
    sort = cluster.start("run", "terasort", "--size", "1GB", "--json", tmp_path / "sort.json")
    wait_for(lambda: any(row["name"] == "j1.m1.0" for row in folder.processes()), 20, "a map runs")
    shown = [""]

    def status_says_so():
        shown[0] = cluster.ok("status")
        return "waits for a connection to network" in shown[0]

    wait_for(status_says_so, 30, "it is seen")
    [line] = [line for line in shown[0].splitlines() if line.split()[:1] == ["network"]]
    assert f"does not answer: it is stopped, until kill -CONT {emulator}" in " ".join(line.split())
    os.kill(emulator, signal.SIGCONT)
    said, errors = sort.communicate(timeout=60)
    assert sort.returncode == 0, errors
    assert "10000 records in order" in said
    assert json.loads((tmp_path / "sort.json").read_text())["tasks"]["failed"] == 0
    assert "10000 records in order" in cluster.ok("run", "terasort", "--size", "1GB")
    after = cluster.ok("status")
    assert "does not answer" not in after
    assert "waits for a connection" not in after
