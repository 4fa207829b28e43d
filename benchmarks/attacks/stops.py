"""SIGSTOP of each role for 1 to 15 s while a job runs, then SIGCONT: the job is verified yet.

Afterwards the cluster is as well as before: ``status`` names nobody dead or silent, another job is
verified, and each file has its replicas.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks._grounds.home import Home
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials
from railyard.benchmarks.attacks.kills import require_verified
from railyard.scripts.chaos.processes import pid_of

ROLES = (
    "ResourceManager",
    "NameNode",
    "NetworkEmulator",
    "Supervisor",
    "NodeManager",
    "DataNode",
    "Helper",
    "JobHelper",
    "Attempt",
)
_LONGEST_S = 15.0
#: A link to a daemon that is silent for this long was given up once.
_LONG_S = 13.0
_HEALTH_TIMEOUT_S = 30.0


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Stop; ``quick`` has a long stop of the emulator and a short one of some others."""
    return run_trials("stops", trials(), quick, seed, only)


def trials() -> list[Trial]:
    """All stops."""
    every = []
    for role in ROLES:
        for i, stop_s in enumerate((None, None, _LONG_S)):
            quick = (role, i) in {("NetworkEmulator", 2), ("NodeManager", 0), ("NameNode", 1)}
            attack = partial(_stop, role, stop_s)
            row = f"SIGSTOP of {role} for 1 to 15 s"
            every.append(Trial(name=f"{role}-{i}", row=row, attack=attack, quick=quick))
    return every


def _stop(role: str, stop_s: float | None, home: Home) -> None:
    home.up()
    job = home.start_job()
    time.sleep(home.dice.uniform(0.5, 3.0))
    home.wait_for(role, lambda: home.rows(role) or not job.running)
    if rows := home.rows(role):
        pid = pid_of(home.dice.choice(rows))
        _stop_process(pid, stop_s or home.dice.uniform(1, _LONGEST_S))
    require_verified(job)
    home.wait_for("a healthy cluster", lambda: _is_healthy(home), _HEALTH_TIMEOUT_S)
    require_verified(home.start_job("500MB"))
    home.run("down").require_ok()
    home.require_nothing_left()


def _stop_process(pid: int, stop_s: float) -> None:
    try:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(stop_s)
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return  # it was killed meanwhile, or had ended


def _is_healthy(home: Home) -> bool:
    status = home.run("status")
    status.require_ok()
    text = status.stdout.decode()
    well = not any(word in text for word in ("silent", "died", "lost"))
    return well and home.run("fs", "fsck").status == 0
