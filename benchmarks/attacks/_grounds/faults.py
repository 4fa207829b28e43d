"""Trials of a job under faults: a table of them, done and watched as ``railyard/chaos`` does.

Each has a cluster of its own that is up, a job on it, and faults of one kind at random moments of
that.  All of them are recovered from, the job's output is verified, and nothing is left.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from railyard.benchmarks.attacks._grounds.home import SMALL, Home, Ran, require
from railyard.benchmarks.attacks._grounds.trials import Trial
from railyard.chaos.injector import RECOVERY_TIMEOUT_S, Effect, Faults, Injector, Recovered
from railyard.chaos.plan import LiveFault
from railyard.chaos.targets import Recovery
from railyard.cluster.config import ClusterConfig
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import load_topology
from railyard.runs.clusters import connected

#: A job of the usual size takes about 5 s.
MOMENT_S_MAX = 4.0
#: Without any node a job may wait for one for this long.
_NO_NODES_TIMEOUT_S = 150.0
_LOOK_S = 0.5
#: Does a fault of a kind.
DoFault = Callable[[Faults, LiveFault], Effect | None]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Faults of a kind, and what else holds."""

    name: str
    row: str  #: that counts its trials
    kind: str
    target: str = ""  #: a role; "": as the kind has it
    in_each_rack: bool = False  #: whether the target of each rack has the fault, at once
    lasts_s: float = 0.0
    faults_max: int = 1  #: of one job; at random, from one on
    times: int = 1
    quick: int = 0  #: of these, in a quick run
    may_fail: bool = False  #: whether the job may fail instead, if it says so
    beside: Callable[[Home], AbstractContextManager[object]] = nullcontext  #: what else goes on
    look: Callable[[Home], None] = lambda _: None  #: what holds meanwhile, and in the end
    check: Callable[[Home, Ran], object] = lambda *_: None  #: what holds once the job has ended

    def plan(self, dice: random.Random) -> list[LiveFault]:
        """The faults, in the order of their times."""
        targets = [self.target]
        if self.in_each_rack:
            targets = [f"{self.target}-{rack.id}" for rack in load_topology(str(SMALL)).rack_list()]
        moments_s = sorted(
            dice.uniform(0, MOMENT_S_MAX) for _ in range(dice.randint(1, self.faults_max))
        )
        return [
            LiveFault(
                kind=self.kind, target=target, at_s=at_s, lasts_s=self.lasts_s, draw=dice.random()
            )
            for at_s in moments_s
            for target in targets
        ]


def case_trials(
    cases: Sequence[Case],
    recoveries_s: dict[str, list[float]] | None = None,
    others: Mapping[str, DoFault] | None = None,
) -> list[Trial]:
    """The trials of a table; each adds its times of recovery to those of its kind of fault.

    ``others`` does kinds of faults that ``railyard chaos`` has not.
    """
    times_s = {} if recoveries_s is None else recoveries_s
    return [
        Trial(
            name=case.name if case.times == 1 else f"{case.name}-{number}",
            row=case.row,
            attack=partial(_attack, case, times_s, others or {}),
            quick=number < case.quick,
        )
        for case in cases
        for number in range(case.times)
    ]


def _attack(
    case: Case, times_s: dict[str, list[float]], others: Mapping[str, DoFault], home: Home
) -> None:
    home.up()
    with case.beside(home):
        job = home.start_job()
        done = _under_faults(home, case, others)
    ran = job.end(_NO_NODES_TIMEOUT_S)
    if ran.status != 0 and case.may_fail:
        ran.require_clear_failure()
    else:
        ran.require_ok()
        ran.require(b"verified" in ran.stdout, "was not verified")
    for one in done:
        require(one.took_s is not None, f"no recovery was seen from: {one.what}")
        times_s.setdefault(one.fault.kind, []).append(one.took_s or 0.0)
    case.check(home, ran)
    case.look(home)
    home.down()


def _under_faults(home: Home, case: Case, others: Mapping[str, DoFault]) -> list[Recovered]:
    """Do the faults of a case to the cluster; those for which there was something to do it to."""
    folder = RunFolder(home.run_folder())
    looked_s = time.monotonic()

    def look() -> bool:
        nonlocal looked_s
        require(not home.is_stopping, "the attacks were stopped")
        if time.monotonic() > looked_s + _LOOK_S:
            case.look(home)
            looked_s = time.monotonic()
        return True

    with connected(folder, ClusterConfig.load(folder)) as session:
        injector = Injector(session, case.plan(home.dice))
        faults = injector.faults
        faults.kinds |= {kind: partial(do, faults) for kind, do in others.items()}
        injector.follow(look)
    return [one for one in injector.done if one.what]


# Faults that last for as long as something else does ---------------------------------------------
def replicated(home: Home) -> Recovery:
    """The block store has all replicas that it should have."""
    while home.run("fs", "fsck").status != 0:
        yield


@contextmanager
def lasting(home: Home, effect: Effect) -> Iterator[None]:
    """Have what a fault did last for as long as the block; then it is mended and recovered from."""
    try:
        yield
    finally:
        effect.mend()
    watch = effect.watch()
    home.wait_for(f"the end of {effect.what}", lambda: next(watch, True), RECOVERY_TIMEOUT_S)
    watch.close()
