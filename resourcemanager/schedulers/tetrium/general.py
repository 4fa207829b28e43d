"""Both problems as linear programs, line by line as the paper has them; solved by HiGHS.

The oracle of ``exact``, and the solver that the paper uses (it calls Gurobi): n * n variables for
maps, n for reduces.  A second program with the same time finds the plan with the least bytes
between sites.  Importing this loads SciPy.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from railyard.netemu.model.arrays import Floats
from railyard.resourcemanager.schedulers.shared.sites import Sites
from railyard.resourcemanager.schedulers.tetrium import placement
from railyard.resourcemanager.schedulers.tetrium.placement import Bounds, Plan, Stage, divided

#: the tightest that HiGHS takes
_TOLERANCE = 1e-10
#: T_net and T_compute, as variables after the shares
_NETWORK, _COMPUTE = 0, 1


def place_maps(sites: Sites, stage: Stage, wanted: Bounds | None = None) -> Plan | None:
    """Equations 1 to 5, and the budget of 4.3."""
    count, size = len(sites.slots), stage.size_bytes
    source, target = np.divmod(np.arange(count * count), count)
    remote = source != target
    possible = (sites.slots[target] > 0) & (
        ~remote | ((sites.up_bytes_per_s[source] > 0) & (sites.down_bytes_per_s[target] > 0))
    )
    program = _Program(np.where(possible, np.inf, 0.0), stage)
    leaves, comes = np.eye(count)[:, source], np.eye(count)[:, target]  # [sites, variables]
    none, sent = np.zeros(count), remote & possible
    up_s, down_s = divided(size, sites.up_bytes_per_s), divided(size, sites.down_bytes_per_s)
    slot_s = divided(stage.work_s, sites.slots)
    program.at_most(none, leaves * sent * up_s[:, np.newaxis], _NETWORK)  # (2)
    program.at_most(none, comes * sent * down_s[:, np.newaxis], _NETWORK)  # (3)
    program.at_most(none, comes * possible * slot_s[:, np.newaxis], _COMPUTE)  # (4)
    program.equal(stage.held_bytes / size, leaves)  # (5)
    if wanted is not None:
        program.at_most(wanted.most, comes)
        program.at_most(-wanted.least, -comes)
    found = program.solve(remote.astype(float), stage.budget_bytes / size)
    if found is None:
        return None
    moved, in_budget = found[0].reshape(count, count), found[1]
    away = (moved - np.diag(np.diag(moved))) * size
    spent_s = placement.network_s(away.sum(axis=1), away.sum(axis=0), sites)
    shares = moved.sum(axis=0)
    return Plan(shares, spent_s, placement.compute_s(shares, stage, sites), in_budget)


def place_reduces(sites: Sites, stage: Stage) -> Plan | None:
    """Equations 6 to 10, and the budget of 4.3."""
    held, size, count = stage.held_bytes, stage.size_bytes, len(sites.slots)
    comes = (sites.down_bytes_per_s > 0) | (held == size)
    program = _Program(np.where((sites.slots > 0) & comes, np.inf, 0.0), stage)
    # no byte may leave: all reduces run there
    program.lower[(sites.up_bytes_per_s <= 0) & (held > 0)] = 1.0
    none, up_s = np.zeros(count), divided(held, sites.up_bytes_per_s)
    program.at_most(-up_s, np.diag(-up_s), _NETWORK)  # (7)
    program.at_most(none, np.diag(divided(size - held, sites.down_bytes_per_s)), _NETWORK)  # (8)
    program.at_most(none, np.diag(divided(stage.work_s, sites.slots)), _COMPUTE)  # (9)
    program.equal(np.ones(1), np.ones((1, count)))  # (10)
    found = program.solve(-held / size, (stage.budget_bytes - size) / size)
    if found is None:
        return None
    shares, in_budget = found
    spent_s = placement.network_s(held * (1 - shares), shares * (size - held), sites)
    return Plan(shares, spent_s, placement.compute_s(shares, stage, sites), in_budget)


class _Program:
    """min T_net + T_compute; the variables are shares, then these two."""

    def __init__(self, most: Floats, stage: Stage) -> None:
        self._count = len(most)
        self._task_s = stage.task_s if stage.work_s > 0 else 0.0
        self.lower, self._upper = np.zeros(len(most)), most
        self._above: list[Floats] = []
        self._limits: list[Floats] = []
        self._equal: tuple[Floats, Floats] | None = None

    def at_most(self, limit: Floats, weights: Floats, time: int | None = None) -> None:
        """The weighted sum of shares, [rows, shares], less a time, is at most ``limit`` [rows]."""
        times = np.zeros((len(limit), 2))
        if time is not None:
            times[:, time] = -1.0
        self._above.append(np.hstack((weights, times)))
        self._limits.append(limit)

    def equal(self, to: Floats, weights: Floats) -> None:
        """The weighted sum of shares, [rows, shares], is ``to`` [rows]."""
        self._equal = np.hstack((weights, np.zeros((len(to), 2)))), to

    def solve(self, wan: Floats, budget: float) -> tuple[Floats, bool] | None:
        """The shares, and whether ``wan`` x shares is within the budget; None if impossible."""
        costs = np.concatenate((wan, [0.0, 0.0]))
        time = np.concatenate((np.zeros(self._count), [1.0, 1.0]))
        least = self._minimise(costs)
        if least is None:
            return None
        in_budget = bool(least[1] <= budget + _TOLERANCE)
        self._limit(costs, budget if in_budget else least[1])
        fastest = self._minimise(time)
        if fastest is None:
            return None
        self._limit(time, fastest[1])
        frugal = self._minimise(costs) or fastest
        return frugal[0][: self._count], in_budget

    def _limit(self, weights: Floats, limit: float) -> None:
        if np.isfinite(limit):
            self._above.append(weights[np.newaxis])
            self._limits.append(np.array([limit]))

    def _minimise(self, costs: Floats) -> tuple[Floats, float] | None:
        assert self._equal is not None
        lower = np.append(self.lower, [0.0, self._task_s])
        bounds = np.column_stack((lower, np.append(self._upper, [np.inf, np.inf])))
        if (bounds[:, 0] > bounds[:, 1]).any():
            return None
        tolerances = {f"{kind}_feasibility_tolerance": _TOLERANCE for kind in ("primal", "dual")}
        found = linprog(
            costs,
            np.vstack(self._above),
            np.concatenate(self._limits),
            *self._equal,
            bounds,
            method="highs",
            options=tolerances,
        )
        return (found.x, float(found.fun)) if found.status == 0 else None
