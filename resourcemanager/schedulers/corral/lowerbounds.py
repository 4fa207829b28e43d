"""Lower bounds of any plan's cost: how far the planner is from the best plan, at most.

Source: Corral, appendix A.  LP-Batch is the paper's; it is solved by HiGHS, which is imported only
here, when needed.  The paper omits LP-Online; here is a bound of our own, from the same problem:
racks have a price that changes over time (Lagrangean relaxation of "no more than R at once").
Neither is used for planning.
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import Floats
from railyard.resourcemanager.schedulers.corral.heuristics import Problem


def lp_batch(problem: Problem) -> float:
    """LP-Batch (1)-(5): a lower bound of the makespan, in seconds."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    lengths_s, (jobs, racks) = problem.lengths_s, problem.lengths_s.shape
    # Columns: x_jr, job by job, then T.
    x = np.arange(jobs * racks)
    job = np.repeat(np.arange(jobs), racks)
    work = (lengths_s * np.arange(1, racks + 1)).ravel()
    once = coo_array((np.ones(x.size), (job, x)), shape=(jobs, x.size + 1))  # (2)
    rows = np.concatenate((job, np.arange(jobs), np.full(x.size, jobs), [jobs]))
    columns = np.concatenate((x, np.full(jobs, x.size), x, [x.size]))
    values = np.concatenate((lengths_s.ravel(), np.full(jobs, -1.0), work, [-float(racks)]))
    below = coo_array((values, (rows, columns)), shape=(jobs + 1, x.size + 1))  # (3), (4)
    solved = linprog(
        c=np.append(np.zeros(x.size), 1.0),
        A_ub=below.tocsr(),
        b_ub=np.zeros(jobs + 1),
        A_eq=once.tocsr(),
        b_eq=np.ones(jobs),
        method="highs-ds",
    )
    if not solved.success:
        raise ArithmeticError(f"LP-Batch of {jobs} jobs on {racks} racks: {solved.message}")
    return float(solved.fun)


def online_bound(
    problem: Problem, known_s: float, until_s: float, intervals: int = 100, rounds: int = 400
) -> float:
    """A lower bound of the average completion time, in seconds.

    A rack costs a price y(t) >= 0 a second, the same throughout an interval; a job that runs on r
    racks from s pays for them.  Let each job choose s and r for itself, so that waiting, running
    and racks together cost it least.  Then the sum over all jobs, less what R racks earn all the
    time, is no more than the best plan's cost, since that plan rents no more than R racks at once.
    This holds for any prices; good ones are found by raising them where too many racks are
    wanted (Polyak's steps).

    ``known_s`` is the average that some plan has and ``until_s`` its end: prices are 0 later.
    """
    prices = _Prices(problem, until_s, intervals)
    best_s, pace, stuck = -np.inf, 1.0, 0
    y = np.zeros(intervals)
    for _ in range(rounds):
        bound_s, demanded = prices.answer(y)
        if bound_s > best_s:
            best_s, best_y, stuck = bound_s, y, 0
        else:
            stuck += 1
        if stuck == 8:  # the steps are too long
            pace, stuck, y = pace / 2, 0, best_y
            continue
        # Where nothing is paid, nothing can be taken off.
        excess = np.where((y <= 0) & (demanded < 0), 0.0, demanded)
        length = float(excess @ excess)
        if length == 0 or pace < 1e-3:
            break
        missing_s = max(known_s * problem.jobs - bound_s, 0.0)
        y = np.maximum(0.0, y + pace * missing_s / length * excess)
    return best_s / problem.jobs


class _Prices:
    """The choices of all jobs at given prices of racks."""

    def __init__(self, problem: Problem, until_s: float, intervals: int) -> None:
        self._problem = problem
        self._edges_s: Floats = np.linspace(0.0, until_s, intervals + 1)
        self._racks = np.arange(1.0, problem.racks + 1)
        # A job's cost is linear in s between those s where it begins or ends on an edge.
        lengths_s = problem.lengths_s[:, :, None]
        come_s = problem.arrive_s[:, None, None]
        shape = (*problem.lengths_s.shape, intervals + 1)
        begin_s = np.broadcast_to(self._edges_s, shape)
        starts_s = np.concatenate((come_s + 0 * lengths_s, begin_s, begin_s - lengths_s), axis=2)
        self._starts_s: Floats = np.maximum(starts_s, come_s)
        self._ends_s: Floats = self._starts_s + lengths_s
        self._completion_s: Floats = self._ends_s - come_s
        busy_s = np.minimum(problem.busy_until_s[:, None], self._edges_s).sum(axis=0)
        self._offered: Floats = problem.racks * np.diff(self._edges_s) - np.diff(busy_s)

    def answer(self, y: Floats) -> tuple[float, Floats]:
        """The bound of the summed completion times, and by interval the rack-seconds beyond R."""
        paid = np.append(0.0, np.cumsum(y * np.diff(self._edges_s)))  # by one rack, since 0
        rent = np.interp(self._ends_s, self._edges_s, paid)
        rent -= np.interp(self._starts_s, self._edges_s, paid)
        cost_s = self._completion_s + self._racks[:, None] * rent
        jobs, _, starts = cost_s.shape
        choice = cost_s.reshape(jobs, -1).argmin(axis=1)
        width, start = np.divmod(choice, starts)
        chosen = (np.arange(jobs), width, start)
        bound_s = float(cost_s[chosen].sum() - y @ self._offered)
        begun = np.clip(self._starts_s[chosen][:, None], self._edges_s[:-1], self._edges_s[1:])
        ended = np.clip(self._ends_s[chosen][:, None], self._edges_s[:-1], self._edges_s[1:])
        demanded: Floats = self._racks[width] @ (ended - begun) - self._offered
        return bound_s, demanded
