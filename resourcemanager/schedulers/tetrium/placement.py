"""Where a stage's tasks should run: the paper's map stage (3.1) and reduce stage (3.2).

Both ask for the share a_x of a stage's tasks that runs at each site x, so that T_net + T_compute is
least.  The core of the network is free of congestion, so T_net is that of the busiest uplink or
downlink; computing goes in waves, T_compute = K max a_x / S_x with K = (seconds of a task) x
(number of tasks).  Here are the two problems, plans in whole tasks, and new assignments that change
a few sites only (4.2); ``general`` and ``exact`` solve the problems.

* No stage computes for less than one task takes (``task_s``): parts of waves count above one wave
  only.  [The paper's programs count them below, too, "with a sufficiently large number of tasks"; a
  stage of few tasks would pay for transfers that spread it over more slots than it has tasks.]
* Plans are rounded so that the stage is shortest in whole tasks and waves (``better_tasks``).  [The
  paper only says that it rounds; by the largest remainders a whole task may pass a slow link where
  a small part of one was planned.]
* Maps: a site sends what it holds beyond its share, or fetches what it has too little.  The paper's
  m_xy (share of the tasks with data at x that run at y) come to the same: only the sums over y and
  over x count, and what a site both sent and fetched could as well have stayed.
* Reduces: each reads all sites, so a site sends Q_x (1 - a_x) and fetches a_x (Q - Q_x).

Of several optima, that with the least bytes between sites: the paper leaves it open, and the slack
of links that are not the busiest would otherwise carry bytes in circles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.schedulers.shared.sites import Sites


@dataclass(frozen=True)
class Stage:
    """The tasks that are left of a stage."""

    held_bytes: Floats  #: [sites] what they read, by the site that holds it; not all 0
    work_s: float  #: K: seconds that one slot would compute for all of them
    budget_bytes: float = np.inf  #: W: at most this much may go between sites
    task_s: float = 0.0  #: seconds of one task; T_compute is no less

    @property
    def size_bytes(self) -> float:
        """Bytes that all tasks read together."""
        return float(self.held_bytes.sum())


@dataclass(frozen=True)
class Plan:
    """Which share of a stage's tasks runs at each site."""

    shares: Floats  #: a_x [sites], their sum is 1
    network_s: float  #: T_aggr or T_shuf
    compute_s: float  #: T_map or T_red
    #: False if the budget can't be kept, as sites without slots hold data: then it is the least
    in_budget: bool = True
    bounds: Bounds | None = None  #: of the shares, of a reverse plan
    tasks: Numbers | None = None  #: the shares in whole tasks [sites], once they are rounded

    @property
    def time_s(self) -> float:
        """T: what was minimised."""
        return self.network_s + self.compute_s


class Solver(Protocol):
    """One way to solve both problems; None where no plan is possible."""

    def place_maps(self, sites: Sites, stage: Stage, wanted: Bounds | None = None) -> Plan | None:
        """Equations 1 to 5; ``wanted`` bounds the shares further (reverse plans)."""

    def place_reduces(self, sites: Sites, stage: Stage) -> Plan | None:
        """Equations 6 to 10."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of the shares; two arrays [sites]."""

    least: Floats
    most: Floats


def map_budget_bytes(stage: Stage, rho: float) -> float:
    """W of a map stage (4.3): nothing has to be sent, all of its input at most."""
    return rho * stage.size_bytes


def reduce_budget_bytes(stage: Stage, rho: float) -> float:
    """W of a reduce stage: at least what is not at the site with most of it (11 to 13)."""
    least, most = stage.size_bytes - float(stage.held_bytes.max()), stage.size_bytes
    return least + rho * (most - least)


def divided(these: Floats | float, by: Floats | Numbers, none: Floats | float = 0.0) -> Floats:
    """``these`` / ``by``, and ``none`` where ``by`` is 0 [sites]."""
    found: Floats = np.full(len(by), none)
    np.divide(these, by, out=found, where=by > 0)
    return found


def time_s(amounts: Floats, rates: Floats | Numbers) -> Floats:
    """How long these amounts take at these rates [sites]: 0 for nothing, inf without a rate."""
    return divided(amounts, rates, np.where(amounts > 0, np.inf, 0.0))


def network_s(sent: Floats, fetched: Floats, sites: Sites) -> float:
    """Seconds of the busiest link, for bytes that leave and reach each site [sites]."""
    up_s, down_s = time_s(sent, sites.up_bytes_per_s), time_s(fetched, sites.down_bytes_per_s)
    return float(max(up_s.max(), down_s.max()))


def compute_s(shares: Floats, stage: Stage, sites: Sites) -> float:
    """Seconds of the busiest site's waves, one at least; more are not rounded up."""
    if stage.work_s <= 0:
        return 0.0
    return max(stage.task_s, float(stage.work_s * time_s(shares, sites.slots).max()))


# Whole tasks --------------------------------------------------------------------------------------
#: A number that is whole but for rounding; solvers are better than this by far.
_WHOLE = 1e-7


def whole_tasks(shares: Floats, tasks: int) -> Numbers:
    """How many of ``tasks`` run at each site [sites]: by largest remainders, so that the sum holds.

    A site gets a task only if it has a share; of equal remainders, the first site's counts.
    """
    exact = shares * tasks
    whole = np.floor(exact + _WHOLE).astype(np.int64)
    missing = tasks - int(whole.sum())
    if missing:
        remainders = np.where(shares > 0, np.maximum(exact - whole, 0.0), -1.0)
        whole[np.argsort(-remainders, kind="stable")[:missing]] += 1
    return whole


def links_s(shares: Floats, stage: Stage, sites: Sites, *, maps: bool) -> tuple[Floats, Floats]:
    """Bytes that leave each site, and seconds of its links, for these shares; all [sites]."""
    if maps:
        missing = shares * stage.size_bytes - stage.held_bytes
        sent, fetched = np.maximum(-missing, 0.0), np.maximum(missing, 0.0)
    else:
        sent = stage.held_bytes * (1.0 - shares)
        fetched = shares * (stage.size_bytes - stage.held_bytes)
    up_s, down_s = time_s(sent, sites.up_bytes_per_s), time_s(fetched, sites.down_bytes_per_s)
    return sent, np.maximum(up_s, down_s)


def better_tasks(
    tasks: Numbers, stage: Stage, sites: Sites, bounds: Bounds | None, *, maps: bool
) -> Numbers:
    """Move single tasks as long as the stage gets shorter by it, in whole tasks and waves [sites].

    More than the budget's bytes, or the ``bounds`` of shares, is for no move.
    """
    count, tasks = int(tasks.sum()), tasks.copy()
    while True:
        (sent, link_s, wave_s), less, more = (
            (*links_s(some / count, stage, sites, maps=maps), _waves_s(some, count, stage, sites))
            for some in (tasks, np.maximum(tasks - 1, 0), tasks + 1)
        )
        after_s = _after(link_s, less[1], more[1]) + _after(wave_s, less[2], more[2])
        after_bytes = sent.sum() + np.add.outer(less[0] - sent, more[0] - sent)
        after_s[after_bytes > max(stage.budget_bytes, sent.sum()) * (1 + _WHOLE)] = np.inf
        after_s[tasks == 0] = np.inf
        if bounds is not None:
            after_s[tasks <= np.floor(bounds.least * count)] = np.inf
            after_s[:, tasks >= np.ceil(bounds.most * count)] = np.inf
        np.fill_diagonal(after_s, np.inf)
        source, target = np.unravel_index(int(after_s.argmin()), after_s.shape)
        if not after_s[source, target] < (link_s.max() + wave_s.max()) * (1 - _WHOLE):
            return tasks
        tasks[source] -= 1
        tasks[target] += 1


def _waves_s(tasks: Numbers, count: int, stage: Stage, sites: Sites) -> Floats:
    """Seconds of each site's waves, for these of ``count`` tasks [sites]."""
    nowhere = np.where((sites.slots <= 0) & (tasks > 0), np.inf, 0.0)
    return np.ceil(divided(tasks.astype(float), sites.slots)) * (stage.work_s / count) + nowhere


def _after(now_s: Floats, less_s: Floats, more_s: Floats) -> Floats:
    """The largest time of all sites, if one has a task less and another one more [one, other]."""
    found = np.maximum.outer(less_s, more_s)
    others: Floats = np.zeros_like(found)
    for site in np.argsort(now_s)[-3:]:  # the last one is the largest of all but in its own row
        apart = np.arange(len(now_s)) != site
        others[np.ix_(apart, apart)] = now_s[site]
    return np.maximum(found, others)


def tasks_between(held: Numbers, placed: Numbers) -> Numbers:
    """How many tasks with data at site x run at site y: [x, y], as few away from it as can be.

    Remote tasks read from all sites that send any, in proportion: no uplink has all at once.
    """
    between = np.diag(np.minimum(held, placed))
    away = held - placed
    if away.any():
        np.add.at(between, (_spread(away), _spread(-away)), 1)
    return between


def _spread(numbers: Numbers) -> Numbers:
    """Each site as often as its number says (never if it is negative), evenly among others."""
    counts = np.maximum(numbers, 0)
    sites = np.repeat(np.arange(len(counts)), counts)
    begins = np.repeat(np.cumsum(counts) - counts, counts)
    places = (np.arange(len(sites)) - begins + 0.5) / counts[sites]
    return sites[np.argsort(places, kind="stable")]


# A new assignment that changes a few sites only (4.2) --------------------------------------------
# Telling all sites of a new assignment costs messages, so when a site loses slots or bandwidth, at
# most k sites change.  f is the number of tasks assigned to each site, f* what would be ideal now;
# f' has the same sum as both and should be near f*: Q = sqrt(sum (f'_i - f*_i)^2).
def changed_at(before: Numbers, ideal: Numbers, k_sites: int) -> Numbers:
    """f' [sites], with at most ``k_sites`` numbers other than in ``before``: senders and receivers.

    Sites that shrink, the one that is furthest above its ideal number first, are emptied to that.
    Which sites receive is searched through: for each number of senders, the best receivers are
    those furthest below their ideal number (another one would end further from it by as much as
    it has less room), filled so that they end equally far below.
    """
    if int(np.count_nonzero(before != ideal)) <= k_sites:
        return ideal.copy()
    best = before.copy()
    below = ideal - before
    senders = np.argsort(below, kind="stable")[: int((below < 0).sum())]
    receivers = np.argsort(-below, kind="stable")[: int((below > 0).sum())]
    for count in range(1, min(k_sites, len(senders) + 1)):
        sent = senders[:count]
        changed = before.copy()
        changed[sent] = ideal[sent]
        _fill(changed, ideal, receivers[: k_sites - count], -int(below[sent].sum()))
        if distance(changed, ideal) < distance(best, ideal):
            best = changed
    return best


def distance(numbers: Numbers, ideal: Numbers) -> float:
    """Q: how far an assignment is from the ideal one."""
    return float(np.linalg.norm((numbers - ideal).astype(float)))


def _fill(numbers: Numbers, ideal: Numbers, sites: Numbers, tasks: int) -> None:
    """Give these sites, the one furthest below its ideal number first, this many tasks."""
    lacking = (ideal - numbers)[sites]
    filled, level = len(sites), 0.0
    while filled:  # the last sites get nothing, if the others end further below than they are
        level = (int(lacking[:filled].sum()) - tasks) / filled
        if level < lacking[filled - 1]:
            break
        filled -= 1
    whole = np.floor(lacking[:filled] - level + 1e-9).astype(np.int64)
    whole[: tasks - int(whole.sum())] += 1
    numbers[sites[:filled]] += whole
