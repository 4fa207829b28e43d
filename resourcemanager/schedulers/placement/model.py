"""What is to be placed, and how: the paper's map stage (3.1) and reduce stage (3.2).

Both ask for the share a_x of a stage's tasks that runs at each site x, so that T_net + T_compute is
least.  The core of the network is free of congestion, so T_net is that of the busiest uplink or
downlink; computing goes in waves, T_compute = K max a_x / S_x with K = (seconds of a task) x
(number of tasks).

* No stage computes for less than one task takes: parts of waves count above one wave only.  [The
  paper's programs count them below, too, "with a sufficiently large number of tasks"; a stage of
  few tasks would pay for transfers that spread it over more slots than it has tasks.]
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

from railyard.netemu.model.arrays import Floats


@dataclass(frozen=True)
class Sites:
    """What each site has; three arrays [sites]."""

    slots: Floats  #: S_x; 0 = no task can run there
    up_bytes_per_s: Floats  #: U_x; 0 = nothing leaves
    down_bytes_per_s: Floats  #: V_x; 0 = nothing comes


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
    wan_bytes: float  #: what goes between sites
    #: False if the budget can't be kept, as sites without slots hold data: then it is the least
    in_budget: bool = True

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


def sent_by_maps_bytes(stage: Stage, shares: Floats) -> float:
    """What goes between sites if maps are spread so."""
    return float(np.maximum(stage.held_bytes - shares * stage.size_bytes, 0.0).sum())


def sent_by_reduces_bytes(stage: Stage, shares: Floats) -> float:
    """What goes between sites if reduces are spread so."""
    return float((stage.held_bytes * (1.0 - shares)).sum())


def network_s(sent: Floats, fetched: Floats, sites: Sites) -> float:
    """Seconds of the busiest link, for bytes that leave and reach each site [sites]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.where(sent > 0, sent / sites.up_bytes_per_s, 0.0)
        down = np.where(fetched > 0, fetched / sites.down_bytes_per_s, 0.0)
    return float(max(up.max(), down.max()))


def compute_s(shares: Floats, stage: Stage, sites: Sites) -> float:
    """Seconds of the busiest site's waves, one at least; more are not rounded up."""
    if stage.work_s <= 0:
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        loads = np.where(shares > 0, shares / sites.slots, 0.0)
    return max(stage.task_s, float(stage.work_s * loads.max()))
