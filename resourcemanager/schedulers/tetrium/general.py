"""Both problems as linear programs, line by line as the paper has them; solved by HiGHS.

The oracle of ``exact``, and the solver that the paper uses (it calls Gurobi): n * n variables for
maps, n for reduces.  Importing this loads SciPy.

A second program with the same time finds the plan with the least bytes between sites.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from railyard.netemu.model.arrays import Floats
from railyard.resourcemanager.schedulers.shared.sites import Sites
from railyard.resourcemanager.schedulers.tetrium import placement
from railyard.resourcemanager.schedulers.tetrium.placement import Bounds, Plan, Stage

#: the tightest that HiGHS takes
_TOLERANCE = 1e-10


def place_maps(sites: Sites, stage: Stage, wanted: Bounds | None = None) -> Plan | None:
    """Equations 1 to 5, and the budget of 4.3."""
    count, size = len(sites.slots), stage.size_bytes
    source, target = np.divmod(np.arange(count * count), count)
    remote = source != target
    possible = (sites.slots[target] > 0) & (
        ~remote | ((sites.up_bytes_per_s[source] > 0) & (sites.down_bytes_per_s[target] > 0))
    )
    program = _Program(np.where(possible, np.inf, 0.0), stage)
    rows = np.flatnonzero(remote & possible)
    weight = size / sites.up_bytes_per_s[source[rows]]
    program.network(source[rows], rows, weight, count)  # (2)
    weight = size / sites.down_bytes_per_s[target[rows]]
    program.network(target[rows], rows, weight, count)  # (3)
    rows = np.flatnonzero(possible)
    program.compute(target[rows], rows, stage.work_s / sites.slots[target[rows]], count)  # (4)
    every = np.arange(count * count)
    program.equal(source, every, np.ones(len(every)), stage.held_bytes / size)  # (5)
    if wanted is not None:
        program.at_most(target, every, np.ones(len(every)), wanted.most)
        program.at_most(target, every, -np.ones(len(every)), -wanted.least)
    moved = remote.astype(float)
    found = program.solve(moved, stage.budget_bytes / size)
    if found is None:
        return None
    return _maps_plan(sites, stage, found[0].reshape(count, count), found[1])


def place_reduces(sites: Sites, stage: Stage) -> Plan | None:
    """Equations 6 to 10, and the budget of 4.3."""
    held, size, every = stage.held_bytes, stage.size_bytes, np.arange(len(sites.slots))
    comes = (sites.down_bytes_per_s > 0) | (held == size)
    program = _Program(np.where((sites.slots > 0) & comes, np.inf, 0.0), stage)
    leaves = sites.up_bytes_per_s > 0
    program.lower[~leaves & (held > 0)] = 1.0  # no byte may leave: all reduces run there
    rows = np.flatnonzero(leaves)
    times = held[rows] / sites.up_bytes_per_s[rows]
    program.network(rows, rows, -times, len(every), -_spread(rows, times, len(every)))  # (7)
    rows = np.flatnonzero(sites.down_bytes_per_s > 0)
    times = (size - held[rows]) / sites.down_bytes_per_s[rows]
    program.network(rows, rows, times, len(every))  # (8)
    rows = np.flatnonzero(sites.slots > 0)
    program.compute(rows, rows, stage.work_s / sites.slots[rows], len(every))  # (9)
    program.equal(np.zeros(len(every), int), every, np.ones(len(every)), np.ones(1))  # (10)
    found = program.solve(-held / size, (stage.budget_bytes - size) / size)
    if found is None:
        return None
    shares, in_budget = found
    wan_bytes = placement.sent_by_reduces_bytes(stage, shares)
    spent_s = placement.network_s(held * (1 - shares), shares * (size - held), sites)
    return Plan(shares, spent_s, placement.compute_s(shares, stage, sites), wan_bytes, in_budget)


# Inside ----------------------------------------------------------------------------------------
class _Program:
    """min T_net + T_compute; the variables are shares, then these two."""

    def __init__(self, most: Floats, stage: Stage) -> None:
        self._count = len(most)
        self._task_s = stage.task_s if stage.work_s > 0 else 0.0
        self.lower, self._upper = np.zeros(len(most)), most
        self._above: list[Any] = []
        self._limits: list[Floats] = []
        self._equal: tuple[Any, Floats] | None = None

    def network(
        self, row: Any, column: Any, times_s: Floats, rows: int, limit: Floats | None = None
    ) -> None:
        """T_net >= the sum of ``times_s`` x shares in each row, less ``-limit``."""
        self._times(row, column, times_s, rows, self._count, limit)

    def compute(self, row: Any, column: Any, times_s: Floats, rows: int) -> None:
        """T_compute >= the sum of ``times_s`` x shares in each row."""
        self._times(row, column, times_s, rows, self._count + 1, None)

    def at_most(self, row: Any, column: Any, weights: Floats, limit: Floats) -> None:
        """The weighted sum of shares in each row is at most ``limit``."""
        shape = (len(limit), self._count + 2)
        self._above.append(sparse.coo_array((weights, (row, column)), shape))
        self._limits.append(limit)

    def equal(self, row: Any, column: Any, weights: Floats, to: Floats) -> None:
        """The weighted sum of shares in each row is ``to``."""
        shape = (len(to), self._count + 2)
        self._equal = sparse.coo_array((weights, (row, column)), shape), to

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
            self._above.append(sparse.coo_array(weights[np.newaxis]))
            self._limits.append(np.array([limit]))

    def _minimise(self, costs: Floats) -> tuple[Floats, float] | None:
        assert self._equal is not None
        bounds = np.stack(
            (
                np.concatenate((self.lower, [0, self._task_s])),
                np.concatenate((self._upper, [np.inf] * 2)),
            ),
            axis=1,
        )
        if (bounds[:, 0] > bounds[:, 1]).any():
            return None
        tolerances = {f"{kind}_feasibility_tolerance": _TOLERANCE for kind in ("primal", "dual")}
        found = linprog(
            costs,
            sparse.vstack(self._above).tocsr(),
            np.concatenate(self._limits),
            self._equal[0].tocsr(),
            self._equal[1],
            bounds,
            method="highs",
            options=tolerances,
        )
        return (found.x, float(found.fun)) if found.status == 0 else None

    def _times(
        self, row: Any, column: Any, times_s: Floats, rows: int, time: int, limit: Floats | None
    ) -> None:
        every = np.arange(rows)
        values = np.concatenate((times_s, np.full(rows, -1.0)))
        place = np.concatenate((row, every)), np.concatenate((column, np.full(rows, time)))
        self._above.append(sparse.coo_array((values, place), (rows, self._count + 2)))
        self._limits.append(np.zeros(rows) if limit is None else limit)


def _maps_plan(sites: Sites, stage: Stage, moved: Floats, in_budget: bool) -> Plan:
    """The plan of a matrix m_xy."""
    away = (moved - np.diag(np.diag(moved))) * stage.size_bytes
    spent_s = placement.network_s(away.sum(axis=1), away.sum(axis=0), sites)
    shares = moved.sum(axis=0)
    compute_s = placement.compute_s(shares, stage, sites)
    return Plan(shares, spent_s, compute_s, float(away.sum()), in_budget)


def _spread(rows: Any, values: Floats, count: int) -> Floats:
    """[count], with ``values`` in these rows and 0 elsewhere."""
    spread = np.zeros(count)
    spread[rows] = values
    return spread
