"""kill -9 of each role at random moments of a job.

Any daemon, a helper or an attempt may go: the job is verified all the same; and what clients ask of
the gateway once more is done.  The supervisor may not: the command says what died, with exit
status 3.  Nothing is left behind by either.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.attacks._grounds.faults import MOMENT_S_MAX, Case, case_trials
from railyard.benchmarks.attacks._grounds.home import Command, Home, Ran, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials
from railyard.benchmarks.attacks._grounds.webclients import WebClients
from railyard.cluster.faults import KILLS
from railyard.cluster.runfolder import RunFolder

_FILE_BYTES = 60_000_000
#: How long a daemon may take to be at work again on a quiet machine.
_AWAY_MEDIAN_S, _AWAY_WORST_S = 2.0, 5.0


def _require_nothing_twice(home: Home, ran: Ran) -> None:
    """No task was run again."""
    rows = RunFolder(home.run_folder()).processes()
    attempts = [row["name"] for row in rows if row["role"] == "Attempt"]
    ran.require(len(attempts) == len(set(attempts)), "an attempt had two processes")
    again = [name for name in attempts if not name.endswith(".0")]
    ran.require(not again, f"tasks were run again: {', '.join(again)}")


@contextmanager
def _put(home: Home) -> Iterator[None]:
    """A file is put meanwhile, and is there, whole."""
    given, got = home.random_file("given", _FILE_BYTES), home.scratch / "got"
    put = home.start("fs", "put", given, "/given")
    yield
    put.end().require_ok()
    home.run("fs", "get", "/given", got).require_ok()
    require(got.read_bytes() == given.read_bytes(), "a file differs")


_case = partial(Case, times=4, quick=1)
#: Those of which the time until they are at work again is bounded.
_BOUNDED = ("ResourceManager", "NetworkEmulator", "NameNode")
_KIND = {role: kind for kind, role in KILLS.items()}
_bounded = partial(Case, times=20, quick=2)
CASES = (
    *(
        _case(name=role, row=f"kill -9 of {role}", kind=_KIND[role])
        for role in ("NodeManager", "DataNode", "Helper", "JobHelper", "Attempt")
    ),
    *(
        _bounded(
            name=role,
            row=f"kill -9 of {role}, and no task is run again",
            kind=_KIND[role],
            check=_require_nothing_twice,
        )
        for role in ("ResourceManager", "NetworkEmulator")
    ),
    _bounded(
        name="NameNode",
        row="kill -9 of NameNode, and no byte is lost",
        kind="kill-namenode",
        beside=_put,
    ),
    _case(
        name="Gateway",
        row="kill -9 of Gateway, and what its clients put is there, whole",
        kind="kill-gateway",
        faults_max=3,
        beside=WebClients,
        check=_require_nothing_twice,
    ),
    *(
        Case(
            name=f"all-{role}",
            row=f"kill -9 of every {role}",
            kind=_KIND[role],
            target=role.lower(),
            in_each_rack=True,
            may_fail=True,
        )
        for role in ("NodeManager", "DataNode")
    ),
)


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Kill; ``quick`` kills each role once."""
    recoveries_s: dict[str, list[float]] = {}
    rows = run_trials("kills", trials(recoveries_s), quick, seed, only)
    for role in _BOUNDED:
        if away_s := recoveries_s.get(_KIND[role]):
            note = f"of {len(away_s)} recoveries"
            median_s, worst_s = statistics.median(away_s), max(away_s)
            rows += [
                bench_row(f"{role} away, median", median_s, "s", bound=_AWAY_MEDIAN_S, note=note),
                bench_row(f"{role} away, at worst", worst_s, "s", bound=_AWAY_WORST_S),
            ]
    return rows


def trials(recoveries_s: dict[str, list[float]] | None = None) -> list[Trial]:
    """All kills; those that are recovered from add how long that took, by kind of fault."""
    row = "kill -9 of Supervisor"
    end = "kill -9 of the command"
    up = "kill -9 of the Supervisor of a cluster that is up"
    return [
        *case_trials(CASES, recoveries_s),
        *(
            Trial(name=f"Supervisor-{i}", row=row, attack=_supervisor, quick=i == 0)
            for i in range(4)
        ),
        *(Trial(name=f"command-{i}", row=end, attack=_command, quick=i == 0) for i in range(3)),
        Trial(name="up", row=up, attack=_supervisor_of_up, quick=True),
    ]


# Where nothing is started again -------------------------------------------------------------------
def _kill_supervisor(home: Home, job: Command) -> None:
    """Kill it while the job runs, which ends well only if it had all that it needed."""
    home.wait_for("Supervisor", lambda: home.rows("Supervisor") or not job.running)
    time.sleep(home.dice.uniform(0, MOMENT_S_MAX))
    for row in home.rows("Supervisor"):
        kill_process(row["pid"])
    ran = job.end(30)
    if ran.status != 0:
        ran.require_clear_failure("supervisor")


def kill_process(pid: int) -> bool:
    """kill -9; whether there was such a process."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _supervisor(home: Home) -> None:
    _kill_supervisor(home, home.start_job())
    home.require_nothing_left()


def _supervisor_of_up(home: Home) -> None:
    home.up()
    _kill_supervisor(home, home.start_job())
    down = home.run("down")
    down.require_words()
    down.require(down.status in (0, 2), "should end, or say that nothing is up")
    home.require_nothing_left()
    home.up()
    home.down()


def _command(home: Home) -> None:
    """Who is killed while it starts a cluster can't remove its folder; the next command does."""
    job = home.start_job()
    time.sleep(home.dice.uniform(0, 2 * MOMENT_S_MAX))
    job.signal(signal.SIGKILL)
    job.end()
    home.wait_for("the processes to end", lambda: not home.living(), 10)
    home.run("down")
    require(home.run("run", "topwords", "--size", "100MB").status == 0, "the next job failed")
    home.require_nothing_left()
