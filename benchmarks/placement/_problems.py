"""Random stages over random sites, and what else is known of where their tasks should run.

The general linear program of a problem, and for few sites all sets of sites that could change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.schedulers.shared.sites import Sites
from railyard.resourcemanager.schedulers.tetrium import exact, general, placement
from railyard.resourcemanager.schedulers.tetrium.placement import Plan, Stage

#: Times of the two solvers may differ by this much, as a share.
TOLERANCE = 1e-9
#: HiGHS's shares are off by up to its tolerance at each of up to 200 sites.
SHARES_TOLERANCE = 1e-7
SITES_MAX = 200


@dataclass(frozen=True)
class Problem:
    """A stage to place."""

    kind: str  #: "maps" or "reduces"
    sites: Sites
    stage: Stage

    def exact(self) -> Plan | None:
        """The plan of ``placement.exact``."""
        return self._solved(exact)

    def general(self) -> Plan | None:
        """The plan of ``placement.general``."""
        return self._solved(general)

    def _solved(self, solver: placement.Solver) -> Plan | None:
        place = solver.place_maps if self.kind == "maps" else solver.place_reduces
        return place(self.sites, self.stage)


def random_problem(seed: int, sites_max: int = SITES_MAX) -> Problem:
    """Few sites more often than many; now and then sites without slots, links or data.

    Every third has small whole numbers only, so that several plans are equally fast.
    """
    dice = np.random.default_rng(seed)
    count = 1 + int(sites_max * dice.random() ** 6)
    sites, held = _whole(dice, min(count, 6)) if seed % 3 == 0 else _real(dice, count)
    held[int(dice.integers(len(held)))] += 1e9
    work_s = float(dice.integers(0, 9)) if seed % 3 == 0 else 10.0 ** dice.uniform(0, 5)
    kind = str(dice.choice(["maps", "reduces"]))
    rho = float(dice.choice([0.0, 1.0, 1.0, dice.random()]))
    budget_bytes = placement.map_budget_bytes if kind == "maps" else placement.reduce_budget_bytes
    stage = Stage(held, work_s)
    task_s = work_s / dice.integers(1, 100) if dice.random() < 0.5 else 0.0
    return Problem(kind, sites, Stage(held, work_s, budget_bytes(stage, rho), task_s))


def placed_differently(problem: Problem) -> tuple[float, str]:
    """By how much the times of both solvers differ, as a share, and what is wrong ("" if nothing).

    Both have to see that there is no plan.  The exact one has to be a plan: it takes as long as it
    says, keeps to the budget, and no plan as fast has fewer bytes between sites.
    """
    found, known = problem.exact(), problem.general()
    if found is None or known is None:
        return 0.0, "" if found is known else "one finds a plan, the other none"
    differs = abs(found.time_s - known.time_s) / max(known.time_s, 1e-9)
    wrong = list(_broken(problem, found))
    if differs > TOLERANCE:
        wrong.append(f"takes {found.time_s!r} s, the linear program's {known.time_s!r} s")
    if found.in_budget != known.in_budget:
        wrong.append("only one is within the budget")
    sent, least = (sent_bytes(problem.kind, problem.stage, plan.shares) for plan in (found, known))
    if sent > least + SHARES_TOLERANCE * problem.stage.size_bytes:
        wrong.append(f"has {sent} bytes sent, another plan as fast {least}")
    return differs, "; ".join(wrong)


def sent_bytes(kind: str, stage: Stage, shares: Floats) -> float:
    """What goes between sites if these shares of maps, or of reduces, run there."""
    if kind == "maps":
        return float(np.maximum(stage.held_bytes - shares * stage.size_bytes, 0.0).sum())
    return float((stage.held_bytes * (1.0 - shares)).sum())


def _broken(problem: Problem, plan: Plan) -> Iterator[str]:
    sites, stage, shares = problem.sites, problem.stage, plan.shares
    size_bytes = stage.size_bytes
    if (shares < 0).any() or abs(shares.sum() - 1) > TOLERANCE:
        yield f"shares {shares} are not of a whole"
    wan_bytes = sent_bytes(problem.kind, stage, shares)
    if plan.in_budget and wan_bytes > stage.budget_bytes + TOLERANCE * size_bytes:
        yield f"{wan_bytes} bytes sent, the budget is {stage.budget_bytes}"
    if problem.kind == "maps":
        away = stage.held_bytes - shares * size_bytes
        sent, fetched = np.maximum(away, 0.0), np.maximum(-away, 0.0)
    else:
        sent, fetched = stage.held_bytes * (1 - shares), shares * (size_bytes - stage.held_bytes)
    known = TOLERANCE * size_bytes  # less is rounding, also where no byte can pass
    spent_s = placement.network_s(sent * (sent > known), fetched * (fetched > known), sites)
    spent_s += placement.compute_s(shares, stage, sites)
    if abs(spent_s - plan.time_s) > 1e-6 * plan.time_s + TOLERANCE:
        yield f"takes {spent_s} s, not {plan.time_s}"


def _real(dice: np.random.Generator, count: int) -> tuple[Sites, Floats]:
    most = int(dice.choice([4, 20, 50, 5000]))
    slots = dice.integers(0 if dice.random() < 0.3 else 1, most, count).astype(float)
    held = np.where(dice.random(count) < 0.2, 0.0, dice.exponential(1e10, count))
    return Sites(slots, _bandwidth(dice, count), _bandwidth(dice, count)), held


def _bandwidth(dice: np.random.Generator, count: int) -> Floats:
    """100 Mbps to 2 Gbps."""
    down = dice.random(count) < (0.1 if dice.random() < 0.3 else 0.0)
    return np.where(down, 0.0, dice.uniform(1.25e7, 2.5e8, count))


def _whole(dice: np.random.Generator, count: int) -> tuple[Sites, Floats]:
    def few(least: int, most: int) -> Floats:
        return dice.integers(0 if dice.random() < 0.2 else least, most, count).astype(float)

    return Sites(few(1, 3), few(1, 3) * 1e9, few(1, 3) * 1e9), few(0, 4) * 1e9


def random_change(seed: int) -> tuple[Numbers, Numbers, int]:
    """An assignment before, the ideal one, and how many sites may change."""
    dice = np.random.default_rng(seed)
    count, tasks = int(dice.integers(2, 8)), int(dice.integers(1, 60))
    before, ideal = (dice.multinomial(tasks, dice.dirichlet(np.ones(count))) for _ in range(2))
    return before, ideal, int(dice.integers(1, count + 1))


def nearest(before: Numbers, ideal: Numbers, k_sites: int) -> float:
    """The least distance to the ideal assignment, over all sets of sites that may change."""
    found = placement.distance(before, ideal)
    for chosen in combinations(range(len(before)), min(k_sites, len(before))):
        sites = list(chosen)
        changed = before.copy()
        changed[sites] = ideal[sites]
        surplus = int(changed.sum() - before.sum())
        for _ in range(abs(surplus)):  # one task after the other, where it costs least
            off = (changed - ideal)[sites] if surplus < 0 else (ideal - changed)[sites]
            possible = np.where((changed[sites] > 0) | (surplus < 0), off, np.iinfo(np.int64).max)
            changed[sites[int(possible.argmin())]] -= int(np.sign(surplus))
        found = min(found, placement.distance(changed, ideal))
    return found
