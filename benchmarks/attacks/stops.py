"""SIGSTOP of each role for 1, 10 and 30 s while a job runs, then SIGCONT: the job is verified yet.

No two processes of a daemon live at once.  Afterwards the cluster is as well as before: ``status``
names nobody dead or silent, another job is verified, and each file has its replicas.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks._grounds.home import Home, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials
from railyard.benchmarks.attacks._grounds.webclients import WebClients
from railyard.benchmarks.attacks.kills import require_verified
from railyard.cluster.messaging.access import Epochs
from railyard.cluster.runfolder import RunFolder

DAEMONS = (
    "ResourceManager",
    "NameNode",
    "NetworkEmulator",
    "NodeManager",
    "DataNode",
    "Gateway",
)
ROLES = (*DAEMONS, "Supervisor", "Helper", "JobHelper", "Attempt")
STOPS_S = (1.0, 10.0, 30.0)
_QUICK = {("NetworkEmulator", 10.0), ("NodeManager", 1.0), ("NameNode", 10.0)}
_LOOK_S = 0.5
_HEALTH_TIMEOUT_S = 30.0


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Stop; ``quick`` has those of some roles."""
    return run_trials("stops", trials(), quick, seed, only)


def trials() -> list[Trial]:
    """All stops."""
    every = []
    for role in ROLES:
        for stop_s in STOPS_S:
            quick = (role, stop_s) in _QUICK
            attack = partial(_stop, role, stop_s)
            row = f"SIGSTOP of {role} for 1, 10 and 30 s"
            name = f"{role}-{stop_s:g}"
            every.append(Trial(name=name, row=row, attack=attack, quick=quick))
    return every


def _stop(role: str, stop_s: float, home: Home) -> None:
    home.up()
    job = home.start_job()
    time.sleep(home.dice.uniform(0.5, 3.0))
    home.wait_for(role, lambda: home.rows(role) or not job.running)
    if rows := home.rows(role):
        pid = home.dice.choice(rows)["pid"]
        with WebClients(home) if role == "Gateway" else nullcontext():
            _stop_process(pid, stop_s, partial(_require_one_of_each, home))
    require_verified(job)
    home.wait_for("a healthy cluster", lambda: _is_healthy(home), _HEALTH_TIMEOUT_S)
    require_verified(home.start_job("500MB"))
    _require_one_of_each(home)
    _require_epochs(home)
    home.run("down").require_ok()
    home.require_nothing_left()


def _require_one_of_each(home: Home) -> None:
    """No two processes of one daemon live."""
    for role in DAEMONS:
        names = [row["name"] for row in home.rows(role)]
        twice = {name for name in names if names.count(name) > 1}
        require(not twice, f"two processes at once: {', '.join(sorted(twice))}")


def _require_epochs(home: Home) -> None:
    """Each process of a daemon has begun an epoch, and no other has."""
    folder = RunFolder(home.run_folder())
    rows = [row["name"] for row in folder.processes() if row["role"] in DAEMONS]
    epochs = Epochs(folder.epochs)
    for name in sorted(set(rows)):
        begun, had = epochs.latest(name), rows.count(name)
        require(begun == had, f"{name}: {begun} epochs of {had} processes")
    epochs.close()


def _stop_process(pid: int, stop_s: float, look: Callable[[], None]) -> None:
    """Stop a process for so long; ``look`` meanwhile, and once it goes on."""
    try:
        os.kill(pid, signal.SIGSTOP)
        until_s = time.monotonic() + stop_s
        while time.monotonic() < until_s:
            look()
            time.sleep(min(_LOOK_S, max(0.0, until_s - time.monotonic())))
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return  # it was killed meanwhile, or had ended
    look()


def _is_healthy(home: Home) -> bool:
    status = home.run("status")
    status.require_ok()
    text = status.stdout.decode()
    well = not any(word in text for word in ("silent", "died", "lost"))
    return well and home.run("fs", "fsck").status == 0
