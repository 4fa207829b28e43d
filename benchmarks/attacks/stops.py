"""SIGSTOP of each role for 1, 10 and 30 s while a job runs, then SIGCONT: the job is verified yet.

No two processes of a daemon live at once.  Afterwards the cluster is as well as before: ``status``
names nobody dead or silent, another job is verified, and each file has its replicas.
"""

from __future__ import annotations

from contextlib import nullcontext

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks._grounds.faults import Case, case_trials
from railyard.benchmarks.attacks._grounds.home import Home, Ran, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials
from railyard.benchmarks.attacks._grounds.webclients import WebClients
from railyard.cluster.faults import ROLES
from railyard.cluster.messaging.access import Epochs
from railyard.cluster.runfolder import RunFolder
from railyard.runs.home import DAEMONS

STOPS_S = (1.0, 10.0, 30.0)
_QUICK = {("NetworkEmulator", 10.0), ("NodeManager", 1.0), ("NameNode", 10.0)}
_HEALTH_TIMEOUT_S = 30.0


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Stop; ``quick`` has those of some roles."""
    return run_trials("stops", trials(), quick, seed, only)


def trials() -> list[Trial]:
    """All stops."""
    return case_trials(
        [
            Case(
                name=f"{role}-{stop_s:g}",
                row=f"SIGSTOP of {role} for 1, 10 and 30 s",
                kind="stop",
                target=role,
                lasts_s=stop_s,
                quick=(role, stop_s) in _QUICK,
                beside=WebClients if role == "Gateway" else nullcontext,
                look=_require_one_of_each,
                check=_require_well,
            )
            for role in ROLES
            for stop_s in STOPS_S
        ]
    )


def _require_well(home: Home, _: Ran) -> None:
    """It is healthy, and each process of a daemon, and no other, has begun an epoch."""
    home.wait_for("a healthy cluster", lambda: _is_healthy(home), _HEALTH_TIMEOUT_S)
    home.start_job("500MB").require_verified()
    folder = RunFolder(home.run_folder())
    rows = [row["name"] for row in folder.processes() if row["role"] in DAEMONS]
    epochs = Epochs(folder.epochs)
    for name in sorted(set(rows)):
        begun, had = epochs.latest(name), rows.count(name)
        require(begun == had, f"{name}: {begun} epochs of {had} processes")
    epochs.close()


def _require_one_of_each(home: Home) -> None:
    """No two processes of one daemon live."""
    for role in DAEMONS:
        names = [row["name"] for row in home.rows(role)]
        twice = {name for name in names if names.count(name) > 1}
        require(not twice, f"two processes at once: {', '.join(sorted(twice))}")


def _is_healthy(home: Home) -> bool:
    status = home.run("status")
    status.require_ok()
    text = status.stdout.decode()
    well = not any(word in text for word in ("silent", "died", "lost"))
    return well and home.run("fs", "fsck").status == 0
