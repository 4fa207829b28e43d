"""kill -9 at the worst moments of a job whose maps run twice: its output is the same byte for byte.

A toy scheduler duplicates each of four maps in another way (``_grounds.everykind``), with
the means of Shadow and KMN.  Which attempts straggle follows from the seed, so that m0's duplicate
ends early, m1's after all originals, m2's is in its original's place, and m3's ends and loses.
Killed is an attempt, the NodeManager of its rack, with all outputs that are kept there, or that and
the DataNode, when an attempt has started or succeeded.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks._grounds.home import SMALL, Command, Home, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials
from railyard.benchmarks.attacks.kills import kill_process
from railyard.cluster.files import NewLines
from railyard.cluster.machine import process_stat
from railyard.cluster.runfolder import RunFolder

#: m0.0, m1.1 and m3.0 straggle, m0.1, m1.0, m2.1, m3.1 and the reduces do not, in the second job.
_STRAGGLING = (
    *("--seed", "875", "--network", "compute.stragglers=0.5"),
    *("--network", "compute.straggler_factor=4", "--network", "compute.map_rate=200MB/s"),
)
_JOB = (
    *("run", "terasort", "--size", "1GB", "--reduces", "3"),
    *("--topology", SMALL, "--network", "racks.slots=2"),  # there is room for all copies at once
)
_SCHEDULER = "every-kind = railyard.benchmarks.attacks._grounds.everykind:RECIPE"

Victim = Literal["attempt", "NodeManager", "rack"]


@dataclass(frozen=True)
class Moment:
    """When an attempt of the job has started or succeeded, something is killed."""

    attempt: str  #: such as "m0.1"
    has: Literal["started", "succeeded"]
    victim: Victim
    of: str  #: the attempt that is killed, or that has run in the rack

    def __str__(self) -> str:
        return f"{self.victim}-{self.of}-as-{self.attempt}-{self.has}"


MOMENTS = (
    Moment("m0.1", "started", "attempt", "m0.1"),  # the early duplicate
    Moment("m0.1", "started", "attempt", "m0.0"),  # its original
    Moment("m0.1", "succeeded", "NodeManager", "m0.1"),  # what was taken
    Moment("m1.0", "succeeded", "attempt", "m1.1"),  # the duplicate to take: the original counts
    Moment("m1.0", "succeeded", "NodeManager", "m1.0"),  # what is kept in case
    Moment("m1.1", "succeeded", "NodeManager", "m1.1"),  # what is taken, while it is fetched
    Moment("m2.1", "started", "attempt", "m2.1"),  # in place of an original that has gone
    Moment("m2.1", "succeeded", "rack", "m2.1"),
    Moment("m3.1", "succeeded", "attempt", "m3.0"),  # the winner: only the loser's output is left
    Moment("m3.1", "succeeded", "NodeManager", "m3.1"),  # what is kept and would lose
    Moment("m3.0", "succeeded", "rack", "m3.0"),  # what is taken, with its input
    Moment("r0.0", "started", "rack", "r0.0"),  # a reader, and what is in its rack
)
#: Several moments of one job, in order.
_SEVERAL = (MOMENTS[0], MOMENTS[3], MOMENTS[9])


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Kill; ``quick`` does so at several moments of one job."""
    return run_trials("duplicates", trials(), quick, seed, only)


def trials() -> list[Trial]:
    """A job for each moment, and one for several."""
    plain = _Plain()
    row = "kill -9 as a map runs twice"
    every = [
        Trial(
            name=str(moment), row=f"{row}, {moment.victim}", attack=partial(_at, (moment,), plain)
        )
        for moment in MOMENTS
    ]
    several = partial(_at, _SEVERAL, plain)
    return [*every, Trial(name="several", row=f"{row}, thrice", quick=True, attack=several)]


class _Plain:
    """What the job writes when nothing goes wrong; the first attack that asks finds it out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[str, bytes] = {}

    def parts(self, home: Home) -> dict[str, bytes]:
        """{name of a file: its bytes}"""
        with self._lock:
            if not self._parts:
                home.run(*_JOB, *_STRAGGLING[:2], "--get", home.scratch / "plain").require_ok()
                self._parts = _parts(home.scratch / "plain")
            return self._parts


def _at(moments: Iterable[Moment], plain: _Plain, home: Home) -> None:
    expected = plain.parts(home)
    require(expected, "nothing was written")
    home.environment["PYTHONPATH"] = str(_installed(home.scratch / "package"))
    results, found = home.scratch / "results", home.scratch / "found"
    options = ("--scheduler", "every-kind", "--get", found, "--out", results)
    job = home.start(*_JOB, *_STRAGGLING, *options)
    attempts = _Attempts(home, job)
    for moment in moments:
        attempts.wait_for(moment)
        attempts.kill(moment)
    job.require_verified()
    require(_parts(found) == expected, "its output differs")
    tasks = json.loads((results / "summary.json").read_text())["tasks"]
    require(tasks["copies"] >= 4, f"{tasks['copies']} copies: need one of each map")
    home.run("replay", results).require_ok()
    home.require_nothing_left()


class _Attempts:
    """The attempts of the second job, which is the sort: what they did, and where they run."""

    def __init__(self, home: Home, job: Command) -> None:
        self._home, self._job = home, job
        self._racks: dict[str, str] = {}  #: {attempt: its rack}, of all that were seen to run
        self._log: NewLines | None = None
        self._events: list[dict[str, Any]] = []  #: that were logged so far

    def wait_for(self, moment: Moment) -> None:
        """Wait until an attempt has started or succeeded."""
        wanted = {"type": f"attempt-{moment.has}", "attempt": f"j2.{moment.attempt}"}

        def has_come() -> bool:
            self._look()
            return any(wanted.items() <= row.items() for row in self._events)

        self._home.wait_for(str(moment), lambda: has_come() or not self._job.running)
        require(self._job.running, f"{moment}: the job ended before")

    def kill(self, moment: Moment) -> None:
        """Kill who is to be killed; of an attempt that is over, nobody."""
        if moment.victim == "attempt":
            pids = [row for row in self._home.rows("Attempt") if row["name"] == f"j2.{moment.of}"]
        else:
            rack = self._racks.get(f"j2.{moment.of}")
            require(rack, f"{moment.of} was not seen to run")
            names = {
                f"nodemanager-{rack}",
                *([f"datanode-{rack}"] if moment.victim == "rack" else []),
            }
            daemons = self._home.rows("NodeManager") + self._home.rows("DataNode")
            pids = [row for row in daemons if row["name"] in names]
        for row in pids:
            kill_process(row["pid"])

    def _look(self) -> None:
        """Read new events, and note in which racks attempts run.

        A job's helper, which bears its rack's name, is the parent of its attempts.
        """
        if self._log is None and (folders := self._home.run_folders()):
            self._log = NewLines(RunFolder(folders[0]).events)
        if self._log is not None:
            self._events += map(json.loads, self._log.read())
        helpers = {row["pid"]: row["name"] for row in self._home.rows("JobHelper")}
        for row in self._home.rows("Attempt"):
            if row["name"] not in self._racks:
                found = process_stat(row["pid"])
                helper = helpers.get(found.parent, "") if found is not None else ""
                if helper:
                    self._racks[row["name"]] = helper.split("-")[1]


def _parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}


def _installed(folder: Path) -> Path:
    """What an installer would make of a package with the toy scheduler."""
    info = folder / "everykind-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: everykind\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[railyard.schedulers]\n{_SCHEDULER}\n")
    return folder
