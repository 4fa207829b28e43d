"""Attacks as trials: each in a home of its own, with its own seed, several at a time.

A trial is repeated, alone, by

    python -m railyard.benchmarks.attacks KIND --seed SEED --trial NAME
"""

from __future__ import annotations

import random
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.attacks._grounds.home import Broken, Grounds, Home

#: Most of a trial's time nothing is computed: something is stopped, paced or waited for.
WORKERS = 4
SEED = 1
_SHOWN = 3


class Skipped(Exception):
    """An attack that cannot be made here: says why."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """An attack: ``Broken`` comes of ``attack`` if it does not hold."""

    name: str  #: "NodeManager-2": unique within its kind
    row: str  #: the row that counts it: "kill -9 of a NodeManager"
    quick: bool = False  #: whether a quick run has it too
    attack: Callable[[Home], None]


@dataclass(frozen=True)
class Outcome:
    """What came of a trial."""

    trial: Trial
    broken: str = ""  #: what did not hold
    skipped: str = ""  #: why it could not be made


def run_trials(
    kind: str, trials: list[Trial], quick: bool, seed: int = SEED, only: str | None = None
) -> list[Row]:
    """Make the attacks; a row for each of their sorts."""
    wanted = [trial for trial in trials if trial.quick or not quick]
    if only is not None:
        wanted = [trial for trial in trials if trial.name == only]
        if not wanted:
            raise ValueError(f"no trial {only}: there are {', '.join(t.name for t in trials)}")
    with Grounds() as grounds, ThreadPoolExecutor(WORKERS) as pool:
        futures = [pool.submit(_make, grounds, kind, trial, seed) for trial in wanted]
        try:
            outcomes = [future.result() for future in as_completed(futures)]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            grounds.close()  # what the threads wait for ends with it
            raise
    by_row: dict[str, list[Outcome]] = {trial.row: [] for trial in wanted}
    for outcome in outcomes:
        by_row[outcome.trial.row].append(outcome)
    return [_row(name, found) for name, found in by_row.items()]


def tally(name: str, tried: int, held: int, broken: list[str]) -> Row:
    """A row: how many attacks held, of how many that were tried."""
    return bench_row(
        f"{name}: of {tried} tried, those that held",
        held,
        ratio=held / tried if tried else None,
        bound=1,
        ok=held == tried,
        note="; ".join(broken[:_SHOWN]),
    )


def say(kind: str, words: str) -> None:
    """Print how it goes on."""
    print(f"  {kind}: {words}", file=sys.stderr, flush=True)


def again(kind: str, seed: int, trial: str) -> str:
    """The command that repeats a trial."""
    return f"again with: python -m railyard.benchmarks.attacks {kind} --seed {seed} --trial {trial}"


def _make(grounds: Grounds, kind: str, trial: Trial, seed: int) -> Outcome:
    home = grounds.home(random.Random(f"{seed} {kind} {trial.name}"))
    begun_s = time.monotonic()
    try:
        trial.attack(home)
    except Broken as broken:
        outcome = Outcome(trial, broken=f"{broken}; {again(kind, seed, trial.name)}")
    except Skipped as skipped:
        outcome = Outcome(trial, skipped=str(skipped))
    except Exception as error:  # what an attack stumbles over did not hold either
        what = f"{type(error).__name__}: {error}"
        outcome = Outcome(trial, broken=f"{what}; {again(kind, seed, trial.name)}")
        traceback.print_exc()
    else:
        outcome = Outcome(trial)
    finally:
        home.close()
    if not grounds.stopping.is_set():
        became = outcome.skipped or outcome.broken or "held"
        say(kind, f"{trial.name} ({time.monotonic() - begun_s:.1f} s): {became}")
    return outcome


def _row(name: str, outcomes: list[Outcome]) -> Row:
    tried = [outcome for outcome in outcomes if not outcome.skipped]
    broken = [outcome.broken for outcome in tried if outcome.broken]
    row = tally(name, len(tried), len(tried) - len(broken), broken)
    if not tried:
        row |= {"ok": None, "note": f"skipped: {outcomes[0].skipped}"}
    return row
