"""Too few file descriptors: for the command, and suddenly for a daemon of a live cluster.

A command says what it lacks.  A daemon that is short of them for a while fails what it was asked
and destroys nothing.  ZeroMQ may end it (a connection that it cannot accept aborts the process): it
is there again soon then.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks._grounds.faults import Case, case_trials, lasting, replicated
from railyard.benchmarks.attacks._grounds.home import SMALL, Home, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials
from railyard.chaos.injector import Effect, Faults
from railyard.chaos.plan import LiveFault
from railyard.chaos.targets import Recovery, limit, replicas

#: With fewer Python itself does not start.
_LIMITS = (20, 24, 32, 40, 48, 64, 96, 128, 256)
_QUICK_LIMITS = (24, 64)
CASES = [
    Case(
        name=role,
        row="a daemon has no descriptors left during a job",
        kind="starve",
        target=role,
        lasts_s=2.0,
        may_fail=True,
        check=lambda home, _: home.start_job("500MB").require_verified(),
    )
    for role in ("NameNode", "ResourceManager", "NetworkEmulator", "NodeManager")
]


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Take descriptors away; ``quick`` in fewer ways."""
    return run_trials("descriptors", trials(), quick, seed, only)


def trials() -> list[Trial]:
    """All shortages."""
    row = "a DataNode has no descriptors left during fs get"
    return [
        *(
            Trial(
                name=f"command-{limit}",
                row="a command with few descriptors",
                attack=partial(_command, limit),
                quick=limit in _QUICK_LIMITS,
            )
            for limit in _LIMITS
        ),
        Trial(name="DataNode-0", row=row, attack=_datanodes, quick=True),
        Trial(name="DataNode-1", row=row, attack=_datanodes),
        *case_trials(CASES, others={"starve": _starve}),
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


def _starve(faults: Faults, fault: LiveFault) -> Effect | None:
    """A daemon has no descriptors left."""
    row = faults.one(fault)
    return None if row is None else _few_descriptors(row, 0, partial(faults.answers, row["name"]))


def _few_descriptors(row: dict[str, Any], spare: int, watch: Callable[[], Recovery]) -> Effect:
    """Have a process get no more descriptors than ``spare``."""
    numbers = [int(path.name) for path in Path(f"/proc/{row['pid']}/fd").iterdir()]
    limit_descriptors = partial(limit, resource.RLIMIT_NOFILE, row["pid"])
    limit_descriptors(_limit_of(numbers, spare))
    return Effect(
        what=f"{row['name']} without descriptors",
        watch=watch,
        mend=partial(limit_descriptors, None),
    )


def _limit_of(numbers: list[int], spare: int) -> int:
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
            with lasting(home, _few_descriptors(_now(home, row), spare, partial(replicated, home))):
                ran = home.run("fs", "cat", "/file")
                if ran.status == 0:
                    ran.require(ran.stdout == local.read_bytes(), "WRONG BYTES, exit status 0")
                else:
                    ran.require_clear_failure()
    ran = home.run("fs", "cat", "/file")
    ran.require_ok()
    ran.require(ran.stdout == local.read_bytes(), "WRONG BYTES with exit status 0")
    lost = before - _sound(home.run_folder())
    require(not lost, f"{lost.total()} sound replicas were destroyed")
    home.down()


def _sound(run_folder: Path) -> Counter[str]:
    """How many replicas each block has on the disks; nobody damages any here."""
    return Counter({name: len(paths) for name, paths in replicas(run_folder).items()})


def _now(home: Home, row: dict[str, Any]) -> dict[str, Any]:
    """The process that now is the daemon of this row; ``Broken`` if there is none for long."""

    def same() -> list[dict[str, Any]]:
        return [now for now in home.rows(row["role"]) if now["name"] == row["name"]]

    home.wait_for(f"{row['name']} to be up", same)
    return same()[-1]
