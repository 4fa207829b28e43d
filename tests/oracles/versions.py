"""Random cases in which compiled loops must do what plain Python does.

A case is a small network and what happens to it: flows of 1 to 10**15 bytes, with weights from
10**-6 to 10**6, that come at any times, also at the very ends of others, and are cancelled;
links that are unlimited, limited or shut; with ``sunflow``, circuits that take no time or long to
set up, pairs that tie, and ports that are booked.  Both versions are driven through the network's
interface alone, so it does not matter here how either is made.

    python -m railyard.oracles.versions SCHEDULER FIRST COUNT

goes through the cases from one seed on and prints a line of JSON about each: for a process that
may be killed, as compiled loops that never end can't be interrupted.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from dataclasses import dataclass
from typing import Any

from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.cluster.inputfile import build
from railyard.cluster.topology import Topology
from railyard.netemu.kernel.rows import ROUNDING as NOTHING
from railyard.netemu.model.arrays import CLOCK_ROUNDING
from railyard.netemu.model.flows import FlowSpec
from railyard.oracles.cases import (
    CLOSE_S,
    CLOSE_SHARE,
    RATES,
    Cancel,
    Case,
    Change,
    Limit,
    Moments,
    Run,
    Start,
    random_links,
)

#: What others leave of a link is a difference, known to the last digit of the link's capacity.  If
#: it is a smaller share of it than this, the end of a flow that sends it is known less well than
#: what is one instant, so that a change then may come before it for one version, and after it for
#: the other.  By exact fractions, either of them was the one that was wrong, and by chance.
KNOWN_SHARE = sys.float_info.epsilon / CLOCK_ROUNDING
#: Shares of links that differ by less than ``NOTHING`` are equal, and what is left of a link is
#: nothing: the end of a flow that sends at less than this share is not known to ``CLOSE_SHARE``.
UNKNOWN_SHARE = NOTHING / CLOSE_SHARE
#: A case may take both versions so much CPU time, once its loops are compiled.
CASE_S_MAX = 2.0
#: Flows of a small case, and of one in fifty.
_FLOWS, _FLOWS_MANY = 14, 60
_SIZES = (0, 1, 10, 1000, 10**5, 10**6, 3 * 10**6, 10**7, 10**8, 2 * 10**8, 10**9, 10**12, 10**15)
_WEIGHTS = (1.0, 1.0, 1.0, 2.0, 0.5, 1e-6, 1e6, 1e3, 0.1)
_PRIORITIES = ((), (), (1.0,), (2.0,), (1.0, 2.0), (9.0,))


@dataclass
class SolvedCase(Case[float]):
    """A case, and when its flows end under the reference."""

    ends: dict[str, float]
    least_shares: dict[str, float]  #: see ``_NotingRun``


class _NotingRun(Run):
    """A run that notes of each flow the least share that it has sent at of all links on its way."""

    def __init__(self, topology: Topology, scheduler: str) -> None:
        super().__init__(topology, scheduler, is_compiled=False)
        self.least_shares: dict[str, float] = {}
        self._ways: dict[FlowId, tuple[int, ...]] = {}

    def do(self, changes: list[Change]) -> None:
        """Have these happen now."""
        for change in changes:
            if isinstance(change, Start):
                spec = change.spec
                self._ways[spec.flow] = self.fabric.network.route(spec.src, spec.dst).links
        super().do(changes)

    def look(self) -> None:
        """Note the rates of now."""
        number, named = self.fabric.network.number, self.fabric.capacities_bytes_per_s()
        capacities = {number[name]: capacity for name, capacity in named.items()}
        free = {number[name]: rest for name, rest in self.fabric.free_bytes_per_s().items()}
        for flow, rate in self.fabric.rates_bytes_per_s().items():
            way = self._ways[flow]
            least = min((capacities[link] for link in way), default=0.0)
            if not rate and way:  # what is left may be nothing, or be handed out
                rate = min(free[link] for link in way)
                rate = rate if rate > least * NOTHING / 2 else 0.0
            if 0 < rate < least:
                known = self.least_shares.get(flow, 1.0)
                self.least_shares[flow] = min(known, rate / least)


def random_case(scheduler: str, seed: int) -> SolvedCase:
    """The same seed, the same case."""
    return _Maker(scheduler, random.Random(f"{scheduler} {seed}")).case()


def compiled_ends_s(scheduler: str, case: Case[float]) -> dict[str, float]:
    """When each flow ends under compiled loops; flows that never do are left out."""
    return Run(case.topology, scheduler, is_compiled=True).all_of(case.moments)


def differences(case: SolvedCase, found: dict[str, float]) -> tuple[float, str]:
    """The largest share by which an end differs, and what differs by more than rounding."""
    worst, wrong, changes_s = 0.0, "", [at_s for at_s, _ in case.moments]
    for flow in sorted(case.ends.keys() | found.keys()):
        right_s, end_s = case.ends.get(flow, math.inf), found.get(flow, math.inf)
        if end_s == right_s:
            continue
        off_s, first_s = abs(end_s - right_s), min(right_s, end_s)
        close_s = CLOSE_S + CLOSE_SHARE * first_s
        share = case.least_shares.get(flow, 1.0)
        at_a_change = any(abs(at_s - first_s) <= close_s for at_s in changes_s)
        if share < UNKNOWN_SHARE or (share < KNOWN_SHARE and at_a_change):
            continue
        worst = max(worst, off_s / max(first_s, 1.0))
        if not off_s <= close_s and not wrong:
            wrong = f"{flow} ends at {end_s!r}: {right_s!r} by plain Python"
    return worst, wrong


class _Maker:
    """Makes a case by running it under the reference, so as to know when flows end."""

    def __init__(self, scheduler: str, dice: random.Random) -> None:
        self._dice, self._circuits = dice, scheduler == "sunflow"
        racks = dice.randint(2, 5 if self._circuits else 3)
        nodes = dice.randint(1, 1 if self._circuits else 2)
        self._most = _FLOWS_MANY if dice.random() < 0.02 else _FLOWS
        self._weights = _WEIGHTS if dice.random() < 0.5 else _WEIGHTS[:5]
        self._ties = dice.choice([(), (10**9,), (10**8, 2 * 10**8, 3 * 10**8)])
        self._nodes = [NodeId(f"r{rack}n{node}") for rack in range(racks) for node in range(nodes)]
        self._topology = build(self._network(racks, nodes), Topology, "case")
        self._run = _NotingRun(self._topology, scheduler)
        self._links = list(self._run.fabric.network.number)
        self._flows = self._coflows = 0

    def case(self) -> SolvedCase:
        """Let things happen, and all flows end that can."""
        moments: Moments[float] = []
        at_s = 0.0
        for _ in range(self._dice.randint(2, 8)):
            at_s = max(self._next_s(at_s), at_s)
            self._happen(moments, at_s, self._changes())
        self._run.until(math.inf)
        return SolvedCase(self._topology, moments, self._run.ends, self._run.least_shares)

    # Inside --------------------------------------------------------------------------------------
    def _network(self, racks: int, nodes: int) -> dict[str, Any]:
        dice = self._dice
        data: dict[str, Any] = {
            "name": "case",
            "racks": {"count": racks, "nodes": nodes},
            "links": random_links(dice),
        }
        if self._circuits:
            data["ocs"] = {
                "port_bytes_per_s": f"{dice.choice([10**8, 10**9, 10**9]) * 8}bps",
                "delta_s": dice.choice(["0s", "16ms", "100ms", "300ms", "1s", "1s"]),
                "elephant_bytes": dice.choice(["1B", "1B", "100MB"]),
            }
        return data

    def _happen(self, moments: Moments[float], at_s: float, changes: list[Change]) -> None:
        self._run.until(at_s)
        self._run.do(changes)
        moments.append((at_s, changes))

    def _next_s(self, at_s: float) -> float:
        """Now, some time later, or as a flow ends by what has happened so far, or nearly then."""
        dice, kind = self._dice, self._dice.random()
        due_s = self._run.fabric.next_event_s()
        if kind < 0.15:
            return at_s
        if kind < 0.6 and due_s < math.inf:
            # not 1e-7: of our rates that is .1 bytes, which just are, or are not, what has ended
            close_s = dice.choice([0.0, 0.0, 0.0, 1e-10, -1e-10, 1.3e-7, -1.3e-7, 0.01])
            return due_s if kind < 0.4 else due_s + close_s
        if kind < 0.7 and due_s < math.inf:
            return at_s + (due_s - at_s) * dice.random()
        return at_s + dice.choice([0.001, 0.016, 0.1, 1.0, 10.0]) * dice.randint(1, 30)

    def _changes(self) -> list[Change]:
        dice, changes = self._dice, list[Change]()
        for _ in range(dice.choice([1, 1, 2, 3])):
            kind = dice.random()
            if kind < 0.65 and self._flows < self._most:
                self._come(changes)
            elif kind < 0.8:
                rate = dice.choice([0, *RATES, *RATES, math.inf])
                link = dice.choice(self._links)
                if not (".ocs." in link and rate == math.inf):  # no port is without a limit
                    changes.append(Limit(link, float(rate)))
            elif self._flows:
                changes.append(Cancel(FlowId(f"f{dice.randrange(self._flows)}")))
        return changes

    def _come(self, changes: list[Change]) -> None:
        """A coflow comes, or a single flow; or more flows of a coflow."""
        dice = self._dice
        width, coflow = dice.choice([1, 1, 2, 3, 4, 8]), None
        if dice.random() < 0.85:
            coflow = CoflowId(f"c{self._coflows}")
            if self._coflows and dice.random() < 0.2:
                coflow = CoflowId(f"c{dice.randrange(self._coflows)}")
            self._coflows += 1
        for _ in range(width if coflow else 1):
            changes.append(Start(self._flow(FlowId(f"f{self._flows}"), coflow)))
            self._flows += 1

    def _flow(self, name: FlowId, coflow: CoflowId | None) -> FlowSpec:
        dice = self._dice
        src, dst = dice.choice(self._nodes), dice.choice(self._nodes)
        if src == dst and dice.random() < 0.9:
            src, dst = dice.sample(self._nodes, 2)
        exactly = dice.random() < 0.7
        return FlowSpec(
            flow=name,
            src=src,
            dst=dst,
            size_bytes=dice.choice(self._ties or _SIZES) if exactly else dice.randint(1, 2 * 10**7),
            coflow=coflow,
            weight=dice.choice(self._weights),
            priority=dice.choice(_PRIORITIES),
        )


def check(scheduler: str, seed: int) -> dict[str, Any]:
    """What a case has come to."""
    begun_s = time.process_time()
    try:
        case = random_case(scheduler, seed)
        worst, wrong = differences(case, compiled_ends_s(scheduler, case))
    except Exception as error:  # whatever it is, it is what is looked for
        worst, wrong = math.inf, f"{type(error).__name__}: {error}"
    took_s = time.process_time() - begun_s
    return {"seed": seed, "worst": worst, "wrong": wrong, "took_s": took_s}


def main(scheduler: str, first: int, count: int) -> None:
    """Check so many cases; one that was slow is run again, as its loops are compiled by then."""
    for seed in range(first, first + count):
        found = check(scheduler, seed)
        if found["took_s"] > CASE_S_MAX:
            found = check(scheduler, seed)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
