"""Too few file descriptors: for the command, and suddenly for a daemon of a live cluster.

A command says what it lacks.  A daemon that is short of them for a while fails what it was asked
and destroys nothing.  ZeroMQ may end it (a connection that it cannot accept aborts the process): a
rack's daemon is there again soon then, without a central one the cluster ends and says why.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks._grounds.home import SMALL, Home, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials
from railyard.benchmarks.attacks.kills import CENTRAL, require_verified
from railyard.chaos.targets import replicas

#: With fewer Python itself does not start.
_LIMITS = (20, 24, 32, 40, 48, 64, 96, 128, 256)
_QUICK_LIMITS = (24, 64)
_DAEMONS = ("NameNode", "ResourceManager", "NetworkEmulator", "NodeManager")
_SHORTAGE_S = 2.0
_HEALTH_TIMEOUT_S = 60.0


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Take descriptors away; ``quick`` in fewer ways."""
    return run_trials("descriptors", trials(), quick, seed, only)


def trials() -> list[Trial]:
    """All shortages."""
    row = "a DataNode has no descriptors left during fs get"
    return [
        Trial(
            name=f"command-{limit}",
            row="a command with few descriptors",
            attack=partial(_command, limit),
            quick=limit in _QUICK_LIMITS,
        )
        for limit in _LIMITS
    ] + [
        Trial(name="DataNode-0", row=row, attack=_datanodes, quick=True),
        Trial(name="DataNode-1", row=row, attack=_datanodes),
        *(
            Trial(
                name=role,
                row="a daemon has no descriptors left during a job",
                attack=partial(_daemon, role),
            )
            for role in _DAEMONS
        ),
    ]


def _command(limit: int, home: Home) -> None:
    def allow_few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    for arguments in (("run", "topwords", "--size", "100MB"), ("up",)):
        ran = home.start(*arguments, "--topology", SMALL, limit=allow_few).end()
        ran.require_words()
        ran.require(ran.status in (0, 1, 2, 3, 4), "another exit status")
        ran.require(ran.status == 0 or len(ran.stderr.strip().splitlines()) < 20, "many words")
        if ran.status == 0 and arguments[0] == "up":
            home.run("down").require_ok()
        home.require_nothing_left()


@contextmanager
def _without_descriptors(pid: int, spare: int) -> Iterator[None]:
    """Have a process get no more descriptors than ``spare``, for as long as the block runs."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    numbers = [int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (_limit(numbers, spare), before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # whoever needs it alive looks at that
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def _limit(numbers: list[int], spare: int) -> int:
    """The limit that leaves so many free numbers below it."""
    limit, taken = 0, set(numbers)
    while spare or limit in taken:
        spare -= limit not in taken
        limit += 1
    return limit


def _datanodes(home: Home) -> None:
    local = home.random_file("local", 6_000_000)
    home.up()
    home.run("fs", "put", local, "/file").require_ok()
    before = _sound(home.run_folder())
    for row in home.rows("DataNode"):
        for spare in (home.dice.randrange(2, 8), 1, 0):
            with _without_descriptors(_wait_until_up(home, row), spare):
                ran = home.run("fs", "cat", "/file")
                if ran.status == 0:
                    ran.require(ran.stdout == local.read_bytes(), "WRONG BYTES, exit status 0")
                else:
                    ran.require_clear_failure()
    ran = home.run("fs", "cat", "/file")
    ran.require_ok()
    ran.require(ran.stdout == local.read_bytes(), "WRONG BYTES with exit status 0")
    home.wait_for(
        "fsck to be healthy", lambda: home.run("fs", "fsck").status == 0, _HEALTH_TIMEOUT_S
    )
    lost = before - _sound(home.run_folder())
    require(not lost, f"{lost.total()} sound replicas were destroyed")
    home.run("down").require_ok()
    home.require_nothing_left()


def _sound(run_folder: Path) -> Counter[str]:
    """How many replicas each block has on the disks; nobody damages any here."""
    return Counter({name: len(paths) for name, paths in replicas(run_folder).items()})


def _wait_until_up(home: Home, row: dict[str, Any]) -> int:
    """The process that now is the daemon of this row; ``Broken`` if there is none for long."""

    def same() -> list[dict[str, Any]]:
        return [now for now in home.rows(row["role"]) if now["name"] == row["name"]]

    home.wait_for(f"{row['name']} to be up", same)
    return same()[-1]["pid"]


def _daemon(role: str, home: Home) -> None:
    home.up()
    job = home.start_job()
    time.sleep(home.dice.uniform(0.5, 4.0))
    row = home.dice.choice(home.rows(role))
    with _without_descriptors(row["pid"], 0):
        time.sleep(_SHORTAGE_S)
    ran = job.end()
    if ran.status != 0:
        ran.require_clear_failure()
    if role in CENTRAL and not home.rows(role):
        ran.require(ran.status == 0 or role in ran.stderr, f"should name the {role}")
    else:
        _wait_until_up(home, row)
        require_verified(home.start_job("500MB"))
    down = home.run("down")
    down.require_words()
    home.require_nothing_left()
