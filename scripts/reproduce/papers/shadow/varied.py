"""What the paper leaves open, varied one at a time: TeraSort against delay."""

from __future__ import annotations

from railyard.scripts.reproduce.figures import Figure, Line, Setup
from railyard.scripts.reproduce.papers.shadow.duplicates import LAUNCHED
from railyard.scripts.reproduce.papers.shadow.setups import (
    DELAY,
    OURS,
    SHUFFLE,
    SKEW_ITSELF,
    alone,
    figure,
    gains,
    terasort,
    words,
)
from railyard.simulator.nodes.behaviour import Behaviour

_ONE_REPLICA = (("storage.replication", "1"),)


def varied(quick: bool) -> Figure:
    """The input's skew, what is shuffled, Algorithm 1's threshold, stragglers, copies, output."""
    lines: list[Line] = []
    for case, jobs in _cases(quick):
        lines.append(alone(jobs, case, DELAY, SKEW_ITSELF))
        lines.append(alone(jobs, case, OURS, SKEW_ITSELF))
        lines.append(alone(jobs, case, OURS, LAUNCHED))
        lines += gains(jobs, case, measure=SHUFFLE)
        lines += gains(jobs, case)
    return figure("what the paper leaves open, varied", "beside the paper", lines, words(quick))


def _cases(quick: bool) -> list[tuple[str, Setup]]:
    found = [("as in Fig. 23", terasort(quick))]
    for ratio in ("1.5", "2", "3"):
        option = f"skew_ratio={ratio}"
        found.append((f"input {ratio} times as much in a rack", terasort(quick, option)))
    for ratio in ("1", "2"):
        jobs = terasort(quick, f"skew_ratio={ratio}", network=_ONE_REPLICA)
        found.append((f"one replica, input {ratio} times as much", jobs))
    found += [
        (f"shuffles {ratio} of its input", terasort(quick, f"shuffle={ratio}"))
        for ratio in ("0.5", "2", "3")
    ]
    for share in ("0.05", "0.3"):
        jobs = terasort(quick, settings=(("shadow.duplicates_max", share),))
        found.append((f"duplicates of at most {share} of the maps", jobs))
    slow = Behaviour(variance=0.3, stragglers=0.05)
    late = (("speculation.gap", "0"),)
    found += [
        ("stragglers, 5 % of the tasks", terasort(quick, behaviour=slow)),
        ("copies by LATE alone", terasort(quick, settings=late)),
        ("output with two replicas", terasort(quick, "output_replication=2")),
    ]
    return found
