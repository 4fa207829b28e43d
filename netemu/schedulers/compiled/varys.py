"""``varys`` for crowds."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.typed import List

from netemu.rowtable import RATE, WEIGHT
from netemu.schedulers.base import Floats, Numbers, Traffic
from netemu.schedulers.compiled.filling import fill, scratch
from netemu.schedulers.compiled.rows import change_rate, load_links, remaining_bytes, sum_up
from netemu.schedulers.compiled.slots import Slots, grown
from netemu.schedulers.filling import Bools
from netemu.schedulers.inorder import by_arrival
from netemu.schedulers.varys import CANCELS, Varys


@njit(cache=True)
def bottlenecks(
    slots: Numbers,
    tables: List,
    paths: List,
    counts: Numbers,
    anew: Bools,
    loads: Floats,
    link_bytes: Floats,
    summed: Floats,
    passed_s: float,
    now_s: float,
    capacities: Floats,
) -> Floats:
    """Γ of each slot, if it had the network for itself.

    ``link_bytes`` is what each has left to send over each link; ``summed``, what it was when it was
    last summed up over the rows.
    """
    longest_s = np.zeros(len(slots))
    for number in range(len(slots)):
        slot = slots[number]
        again, load, demand, whole = anew[slot], loads[slot], link_bytes[slot], summed[slot]
        if not again:
            for link in range(len(load)):
                demand[link] -= load[link] * passed_s
                if demand[link] < whole[link] * CANCELS:
                    again = True
        if again:
            _sum_up(tables[slot], paths[slot], counts[slot], now_s, demand)
            whole[:] = demand
        longest_s[number] = _longest_s(demand, capacities)
    return longest_s


@njit(cache=True)
def _sum_up(table: Floats, paths: Numbers, count: int, now_s: float, link_bytes: Floats) -> None:
    link_bytes[:] = 0.0
    bytes_left = remaining_bytes(table, count, now_s)
    for row in range(count):
        for position in range(len(paths)):
            link_bytes[paths[position, row]] += bytes_left[row]
    link_bytes[-1] = 0.0  # stands for no link


@njit(cache=True)
def _longest_s(link_bytes: Floats, left: Floats) -> float:
    longest_s = 0.0
    for link in range(len(left)):
        if link_bytes[link] > longest_s * left[link]:
            if left[link] == 0:
                return np.inf
            longest_s = link_bytes[link] / left[link]
    return longest_s


@njit(cache=True)
def serve(
    order: Numbers,
    tables: List,
    paths: List,
    counts: Numbers,
    anew: Bools,
    loads: Floats,
    link_bytes: Floats,
    left: Floats,
    rounding: Floats,
    now_s: float,
    bytes_per_s: Floats,
    first_finish_s: Floats,
    touched: Numbers,
) -> int:
    """MADD for all, then backfill; returns how many slots are ``touched``."""
    speeds = np.zeros(len(order))  # 1/Γ: the share of what remains that is sent each second
    for number in range(len(order)):
        demand = link_bytes[order[number]]
        ends_after_s = _longest_s(demand, left)
        speeds[number] = 1.0 / ends_after_s if ends_after_s > 0 else np.inf
        if 0 < speeds[number] < np.inf:
            for link in range(len(left)):
                left[link] -= demand[link] * speeds[number]
                if left[link] <= rounding[link]:
                    left[link] = 0.0
    those, levels, (floats, numbers) = 0, np.empty(len(left)), scratch(len(left))
    for number in range(len(order)):
        slot = order[number]
        table, count, speed = tables[slot], counts[slot], speeds[number]
        more = _has_way(paths[slot], count, left)
        if not more and speed == 0 and bytes_per_s[slot] == 0 and not anew[slot]:
            continue
        bytes_left = remaining_bytes(table, count, now_s)
        rates = np.zeros(count)
        if more:
            fill(paths[slot], bytes_left, left, levels, rates, floats, numbers)
        for row in range(count):
            rate = bytes_left[row] / table[WEIGHT, row] * (speed + rates[row])
            if rate != table[RATE, row]:
                change_rate(table, row, rate, now_s)
        load_links(table, paths[slot], count, loads[slot])
        bytes_per_s[slot], first_finish_s[slot] = sum_up(table, count)
        touched[those] = slot
        those += 1
    return those


@njit(cache=True)
def _has_way(paths: Numbers, count: int, left: Floats) -> bool:
    """Whether something is left for any of the rows."""
    for row in range(count):
        least = np.inf
        for position in range(len(paths)):
            least = min(least, left[paths[position, row]])
        if least > 0:
            return True
    return False


class CompiledVarys(Varys):
    """SEBF, MADD and work-conserving backfill."""

    def __init__(self) -> None:
        super().__init__()
        self._slots = Slots(0)
        self._link_bytes: Floats = np.zeros((0, 0))
        self._summed: Floats = np.zeros((0, 0))
        self._decided_s = 0.0

    def decide(self, traffic: Traffic) -> float:
        """MADD for all, then backfill."""
        links = len(traffic.capacities)
        if self._summed.shape[1] != links:
            self._slots = Slots(links)
            self._link_bytes, self._summed = np.zeros((0, links)), np.zeros((0, links))
        slots = self._slots
        slots.update(traffic)
        more = len(slots.counts) - len(self._summed)
        if more:
            self._link_bytes = grown(self._link_bytes, more)
            self._summed = grown(self._summed, more)
        anew = slots.fresh | slots.changed
        slots.fresh[:] = False
        groups = list(traffic.groups)
        numbers = slots.numbers(groups)
        gammas_s = bottlenecks(
            numbers,
            slots.tables,
            slots.paths,
            slots.counts,
            anew,
            slots.loads,
            self._link_bytes,
            self._summed,
            traffic.now_s - self._decided_s,
            traffic.now_s,
            traffic.capacities,
        ).tolist()
        self._decided_s = traffic.now_s
        keys = [
            (gamma_s, *by_arrival(group)) for gamma_s, group in zip(gammas_s, groups, strict=True)
        ]
        order = numbers[sorted(range(len(groups)), key=keys.__getitem__)]
        left = traffic.capacities.copy()
        touched = serve(
            order,
            slots.tables,
            slots.paths,
            slots.counts,
            anew,
            slots.loads,
            self._link_bytes,
            left,
            slots.rounding,
            traffic.now_s,
            slots.bytes_per_s,
            slots.first_finish_s,
            slots.touched,
        )
        slots.tell(touched)
        return np.inf
