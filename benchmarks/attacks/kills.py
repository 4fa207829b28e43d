"""kill -9 of each role at random moments of a job.

Any daemon, a helper or an attempt may go: the job is verified all the same; and what clients ask of
the gateway once more is done.  The supervisor may not: the command says what died, with exit
status 3.  Nothing is left behind by either.
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import time
from functools import partial

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.attacks._grounds.home import Command, Home, Ran, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials
from railyard.benchmarks.attacks._grounds.webclients import WebClients
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.messages import MakeFolder

SURVIVED = ("NodeManager", "DataNode", "Helper", "JobHelper", "Attempt")
CENTRAL = ("Supervisor",)
_EACH = 4
#: Kills of each daemon that goes on where it died, and how long it may be away on a quiet machine.
_RESTARTS = 20
#: {role: how it is said for how many seconds it was away}, by the job's command and by the
#: ResourceManager's log
_AWAY = {
    "ResourceManager": re.compile(r"the ResourceManager was restarted: ([0-9.]+) s"),
    "NetworkEmulator": re.compile(r"the network was away for ([0-9.]+) s$", re.MULTILINE),
}
_FILE_BYTES = 60_000_000
_AWAY_MEDIAN_S, _AWAY_WORST_S = 2.0, 5.0
#: A job of the usual size takes about 5 s from its cluster's being up.
_MOMENT_S_MAX = 4.0
#: Kills of the gateway during one job.
_GATEWAY_KILLS_MAX = 3
#: Without any node a job may wait for one for this long.
_NO_NODES_TIMEOUT_S = 150.0


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Kill; ``quick`` kills each role once."""
    away_of: dict[str, list[float]] = {}
    rows = run_trials("kills", trials(away_of), quick, seed, only)
    for role, away_s in away_of.items():
        what, note = f"{role} away", f"of {len(away_s)} that were noticed"
        median_s, worst_s = statistics.median(away_s), max(away_s)
        rows += [
            bench_row(f"{what}, median", median_s, "s", bound=_AWAY_MEDIAN_S, note=note),
            bench_row(f"{what}, at worst", worst_s, "s", bound=_AWAY_WORST_S),
        ]
    return rows


def trials(away_of: dict[str, list[float]] | None = None) -> list[Trial]:
    """All kills; those of daemons that go on add for how long these were away, by role."""
    away_of = {} if away_of is None else away_of
    every = []
    for role in (*SURVIVED, *CENTRAL):
        attack = _survived if role in SURVIVED else _central
        row = f"kill -9 of {role}"
        every += [
            Trial(name=f"{role}-{i}", row=row, attack=partial(attack, role), quick=i == 0)
            for i in range(_EACH)
        ]
    every += [
        Trial(
            name=f"{role}-{i}",
            row=f"kill -9 of {role}, and no task is run again",
            attack=partial(_restarted, role, away_of),
            quick=i < 2,
        )
        for role in _AWAY
        for i in range(_RESTARTS)
    ]
    row = "kill -9 of NameNode, and no byte is lost"
    every += [
        Trial(name=f"NameNode-{i}", row=row, attack=partial(_namenode, away_of), quick=i < 2)
        for i in range(_RESTARTS)
    ]
    row = "kill -9 of Gateway, and what its clients put is there, whole"
    every += [
        Trial(name=f"Gateway-{i}", row=row, attack=_gateway, quick=i == 0) for i in range(_EACH)
    ]
    for role in ("NodeManager", "DataNode"):
        row = f"kill -9 of every {role}"
        every.append(Trial(name=f"all-{role}", row=row, attack=partial(_all, role)))
    command = "kill -9 of the command"
    every += [
        Trial(name=f"command-{i}", row=command, attack=_command, quick=i == 0) for i in range(3)
    ]
    row = "kill -9 of the Supervisor of a cluster that is up"
    every.append(Trial(name="up", row=row, attack=_supervisor_of_up, quick=True))
    return every


def kill_one(home: Home, job: Command, role: str) -> None:
    """Kill a process of this role, a random one; one that ends meanwhile does not count."""
    while job.running:
        rows = home.rows(role)
        if rows and kill_process(home.dice.choice(rows)["pid"]):
            return
        time.sleep(0.005)


def kill_process(pid: int) -> bool:
    """kill -9; whether there was such a process."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _job_at_work(home: Home) -> Command:
    """A job on a cluster of its own, a random while after that is up."""
    job = home.start_job()
    home.wait_for("the cluster to be up", lambda: home.is_ready() or not job.running)
    time.sleep(home.dice.uniform(0, _MOMENT_S_MAX))
    return job


def require_verified(job: Command) -> None:
    """The job ended well, and its output was checked."""
    ran = job.end()
    ran.require_ok()
    ran.require(b"verified" in ran.stdout, "was not verified")


def _survived(role: str, home: Home) -> None:
    job = _job_at_work(home)
    kill_one(home, job, role)
    require_verified(job)
    home.require_nothing_left()


def _restarted(role: str, away_of: dict[str, list[float]], home: Home) -> None:
    """How long it was away is what the job's command or the log says: until another answered."""
    home.up()
    job = home.start_job()
    time.sleep(home.dice.uniform(0, _MOMENT_S_MAX))
    kill_one(home, job, role)
    ran = job.end()
    ran.require_ok()
    ran.require(b"verified" in ran.stdout, "was not verified")
    folder = RunFolder(home.run_folder())
    said = ran.stderr + folder.log("resourcemanager").read_text()
    for seconds in _AWAY[role].findall(said):
        away_of.setdefault(role, []).append(float(seconds))
    _require_nothing_twice(home, ran)
    home.run("down").require_ok()
    home.require_nothing_left()


def _gateway(home: Home) -> None:
    home.up()
    job = home.start_job()
    with WebClients(home):
        for _ in range(home.dice.randint(1, _GATEWAY_KILLS_MAX)):
            time.sleep(home.dice.uniform(0, _MOMENT_S_MAX / _GATEWAY_KILLS_MAX))
            kill_one(home, job, "Gateway")
    ran = job.end()
    ran.require_ok()
    ran.require(b"verified" in ran.stdout, "was not verified")
    _require_nothing_twice(home, ran)
    gateways = [row for row in RunFolder(home.run_folder()).processes() if row["role"] == "Gateway"]
    ran.require(len(gateways) > 1, "it ended before the gateway could be killed")
    home.run("down").require_ok()
    home.require_nothing_left()


def _require_nothing_twice(home: Home, ran: Ran) -> None:
    """No task was run again."""
    rows = RunFolder(home.run_folder()).processes()
    attempts = [row["name"] for row in rows if row["role"] == "Attempt"]
    ran.require(len(attempts) == len(set(attempts)), "an attempt had two processes")
    again = [name for name in attempts if not name.endswith(".0")]
    ran.require(not again, f"tasks were run again: {', '.join(again)}")


def _namenode(away_of: dict[str, list[float]], home: Home) -> None:
    """It is away until it makes a folder: its safe mode has ended then."""
    home.up()
    given = home.random_file("given", _FILE_BYTES)
    put = home.start("fs", "put", given, "/given")
    job = home.start_job()
    transport = Transport(RunFolder(home.run_folder()))
    link = LastingLink(transport, "namenode")
    link.ask(MakeFolder(path="/before"), Done)
    time.sleep(home.dice.uniform(0, _MOMENT_S_MAX))
    kill_one(home, job, "NameNode")
    begun_s = time.monotonic()
    link.ask(MakeFolder(path="/after"), Done)
    away_of.setdefault("NameNode", []).append(time.monotonic() - begun_s)
    transport.close()
    require_verified(job)
    put.end().require_ok()
    got = home.scratch / "got"
    home.run("fs", "get", "/given", got).require_ok()
    require(got.read_bytes() == given.read_bytes(), "a file differs")
    home.run("down").require_ok()
    home.require_nothing_left()


def _central(role: str, home: Home) -> None:
    job = home.start_job()
    home.wait_for(role, lambda: home.rows(role) or not job.running)
    time.sleep(home.dice.uniform(0, _MOMENT_S_MAX))
    rows = home.rows(role)
    if rows and kill_process(rows[0]["pid"]):
        ran = job.end(30)
        if ran.status != 0:  # 0: it had all that it needed
            ran.require_clear_failure(role, rows[0]["name"])
    else:
        job.end()
    home.require_nothing_left()


def _all(role: str, home: Home) -> None:
    job = _job_at_work(home)
    for row in home.rows(role):
        kill_process(row["pid"])
    ran = job.end(_NO_NODES_TIMEOUT_S)
    if ran.status == 0:
        ran.require(b"verified" in ran.stdout, "was not verified")
    else:
        ran.require_clear_failure("failed")
    home.require_nothing_left()


def _command(home: Home) -> None:
    job = home.start_job()
    time.sleep(home.dice.uniform(0, 2 * _MOMENT_S_MAX))
    job.signal(signal.SIGKILL)
    job.end()
    _only_processes_matter(home)


def _only_processes_matter(home: Home) -> None:
    """Who is killed while it starts a cluster can't remove its folder; the next command does."""
    home.wait_for("the processes to end", lambda: not home.living(), 10)
    home.run("down")
    require(home.run("run", "topwords", "--size", "100MB").status == 0, "the next job failed")
    home.require_nothing_left()


def _supervisor_of_up(home: Home) -> None:
    home.up()
    job = home.start_job()
    time.sleep(home.dice.uniform(0, _MOMENT_S_MAX))
    kill_one(home, job, "Supervisor")
    ran = job.end(30)
    if ran.status != 0:
        ran.require_clear_failure("supervisor")
    down = home.run("down")
    down.require_words()
    down.require(down.status in (0, 2), "should end, or say that nothing is up")
    home.require_nothing_left()
    home.up()
    home.run("down").require_ok()
    home.require_nothing_left()
