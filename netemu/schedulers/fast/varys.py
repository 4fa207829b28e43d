"""``varys``, compiled: what coflows have left is counted down, not summed up at each decision."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.rows import RATE, WEIGHT
from railyard.netemu.model.ties import ranks
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.fast.loops.filling import fill, scratch
from railyard.netemu.schedulers.fast.loops.grouparrays import GroupArrays, GroupRates, grown
from railyard.netemu.schedulers.fast.loops.rows import (
    change_rate,
    differs,
    load_links,
    remaining_bytes,
    sum_up,
)
from railyard.netemu.schedulers.filling import by_arrival
from railyard.netemu.schedulers.reference.varys import Varys

#: A sum that has shrunk to this share has lost too many digits.
CANCELS = 1e-3
#: A coflow that could end within this share of the time that the clock shows is summed up anew:
#: the clock has too few digits to say what it sent in its last moments.
LAST_MOMENTS = 1e-4
#: A rate that would change by less than this share stays: rounding.  Most that is sent by backfill
#: goes on as before, whatever happens elsewhere.
_STAYS = 1e-12


@njit(cache=True)
def bottlenecks(
    indices: Numbers,
    tables: List,
    paths: List,
    counts: Numbers,
    anew: Bools,
    rates: GroupRates,
    link_bytes: Floats,
    summed: Floats,
    passed_s: float,
    now_s: float,
    capacities: Floats,
) -> Floats:
    """Γ of each of these groups, in seconds, if it had the network for itself.

    ``link_bytes`` [index, link] is what a group has left to send; ``summed``, what that was when
    it was last summed up over the rows.
    """
    longest_s = np.zeros(len(indices))
    s_per_byte, shut = _pace(capacities)
    for number in range(len(indices)):
        index = indices[number]
        demand, again = link_bytes[index], anew[index]
        if not again and rates.bytes_per_s[index] > 0:
            again = _send(demand, rates.loads[index], passed_s, summed[index]) > 0
            again |= _longest_s(demand, s_per_byte) < now_s * LAST_MOMENTS
        if again:
            _sum_up(tables[index], paths[index], counts[index], now_s, demand)
            summed[index, :] = demand
        longest_s[number] = _ends_after_s(demand, s_per_byte, shut)
    return longest_s


@njit(cache=True)
def _pace(left: Floats) -> tuple[Floats, Numbers]:
    """Seconds that each link needs per byte, and the links that have nothing left."""
    s_per_byte = np.zeros(len(left))
    for link in range(len(left)):
        if left[link] > 0:
            s_per_byte[link] = 1.0 / left[link]
    return s_per_byte, np.flatnonzero(left == 0)


@njit(cache=True, fastmath={"reassoc", "nnan", "nsz"})  # several links at a time
def _send(link_bytes: Floats, load: Floats, passed_s: float, summed: Floats) -> int:
    """Count down what has been sent; returns on how many links too many digits were lost."""
    lost = 0
    for link in range(len(load)):
        link_bytes[link] -= load[link] * passed_s
        lost += 1 if link_bytes[link] < summed[link] * CANCELS else 0
    return lost


@njit(cache=True)
def _sum_up(table: Floats, paths: Numbers, count: int, now_s: float, link_bytes: Floats) -> None:
    link_bytes[:] = 0.0
    bytes_left = remaining_bytes(table, count, now_s)
    for row in range(count):
        for position in range(len(paths)):
            link_bytes[paths[position, row]] += bytes_left[row]
    link_bytes[-1] = 0.0  # stands for no link


@njit(cache=True)
def _ends_after_s(link_bytes: Floats, s_per_byte: Floats, shut: Numbers) -> float:
    """Seconds until the slowest link has carried all; inf if one that is needed is ``shut``."""
    for link in shut:
        if link_bytes[link] > 0:
            return np.inf
    return _longest_s(link_bytes, s_per_byte)


@njit(cache=True, fastmath={"reassoc", "nnan", "nsz"})  # several links at a time
def _longest_s(link_bytes: Floats, s_per_byte: Floats) -> float:
    longest_s = 0.0
    for link in range(len(link_bytes)):
        longest_s = max(longest_s, link_bytes[link] * s_per_byte[link])
    return longest_s


@njit(cache=True)
def serve(
    order: Numbers,
    tables: List,
    paths: List,
    counts: Numbers,
    anew: Bools,
    sends: GroupRates,
    link_bytes: Floats,
    left: Floats,
    rounding: Floats,
    now_s: float,
) -> int:
    """MADD for all groups, then backfill; returns how many are ``touched``."""
    _, loads, bytes_per_s, first_finish_s, touched = sends
    speeds = _speeds(order, link_bytes, left, rounding)
    touched_count, levels, (floats, numbers) = 0, np.empty(len(left)), scratch(len(left))
    for number in range(len(order)):
        index = order[number]
        table, count, speed = tables[index], counts[index], speeds[number]
        more = _has_way(paths[index], count, left)
        if not more and speed == 0 and bytes_per_s[index] == 0 and not anew[index]:
            continue
        bytes_left = remaining_bytes(table, count, now_s)
        rates = np.zeros(count)
        if more:
            fill(paths[index], bytes_left, left, levels, rates, floats, numbers)
        is_new = anew[index]
        for row in range(count):
            rate, before = (
                bytes_left[row] / table[WEIGHT, row] * (speed + rates[row]),
                table[RATE, row],
            )
            if differs(rate, before, _STAYS):
                change_rate(table, row, rate, now_s)
                is_new = True
        if not is_new:
            continue
        load_links(table, paths[index], count, loads[index])
        bytes_per_s[index], first_finish_s[index] = sum_up(table, count)
        touched[touched_count] = index
        touched_count += 1
    return touched_count


@njit(cache=True)
def _speeds(order: Numbers, link_bytes: Floats, left: Floats, rounding: Floats) -> Floats:
    """1/Γ of each group, in this order: the share of what remains that is sent each second.

    What groups are given is taken from what is ``left``.
    """
    speeds = np.zeros(len(order))
    s_per_byte, first_shut = _pace(left)
    shut, many = np.empty(len(left), np.int64), len(first_shut)
    shut[:many] = first_shut
    for number in range(len(order)):
        demand = link_bytes[order[number]]
        ends_after_s = _ends_after_s(demand, s_per_byte, shut[:many])
        speed = speeds[number] = 1.0 / ends_after_s if ends_after_s > 0 else np.inf
        if speed in (0.0, np.inf):
            continue
        for link in range(len(left)):
            if demand[link] <= 0 or left[link] == np.inf:
                continue
            left[link] -= demand[link] * speed
            if left[link] > rounding[link]:
                s_per_byte[link] = 1.0 / left[link]
            else:
                left[link] = s_per_byte[link] = 0.0
                shut[many] = link
                many += 1
    return speeds


@njit(cache=True)
def _has_way(paths: Numbers, count: int, left: Floats) -> bool:
    """Whether any row has something left on its whole path."""
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
        self._arrays = GroupArrays(0)
        self._link_bytes: Floats = np.zeros((0, 0))
        self._summed: Floats = np.zeros((0, 0))
        self._decided_s = 0.0
        self._groups: list[Group] = []
        self._indices: Numbers = np.zeros(0, dtype=np.int64)  #: their indices, by arrival

    def decide(self, traffic: Traffic) -> float:
        """MADD for all, then backfill."""
        links = len(traffic.capacities)
        if self._summed.shape[1] != links:
            self._arrays = GroupArrays(links)
            self._link_bytes, self._summed = np.zeros((0, links)), np.zeros((0, links))
        arrays = self._arrays
        arrays.update(traffic)
        more = len(arrays.counts) - len(self._summed)
        if more:
            self._link_bytes = grown(self._link_bytes, more)
            self._summed = grown(self._summed, more)
        anew = arrays.fresh | arrays.changed
        arrays.fresh[:] = False
        indices = self._by_arrival(traffic)
        gammas_s = bottlenecks(
            indices,
            arrays.tables,
            arrays.paths,
            arrays.counts,
            anew,
            arrays.rates,
            self._link_bytes,
            self._summed,
            traffic.now_s - self._decided_s,
            traffic.now_s,
            traffic.capacities,
        )
        self._decided_s = traffic.now_s
        smallest_first = np.argsort(ranks(gammas_s, instant_s(traffic.now_s)), kind="stable")
        order = indices[smallest_first]  # ties stay by arrival
        left = traffic.capacities.copy()
        touched = serve(
            order,
            arrays.tables,
            arrays.paths,
            arrays.counts,
            anew,
            arrays.rates,
            self._link_bytes,
            left,
            arrays.rounding,
            traffic.now_s,
        )
        arrays.hand_over(touched)
        return np.inf

    def _by_arrival(self, traffic: Traffic) -> Numbers:
        """The indices of all groups, by arrival."""
        groups = list(traffic.groups)
        if groups != self._groups:
            self._groups = groups
            self._indices = self._arrays.indices(sorted(groups, key=by_arrival))
        return self._indices
