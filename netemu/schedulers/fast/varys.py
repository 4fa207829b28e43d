"""``varys`` with many open flows."""

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
from railyard.netemu.schedulers.fast.loops.rows import (
    change_rate,
    differs,
    load_links,
    remaining_bytes,
    sum_up,
)
from railyard.netemu.schedulers.fast.loops.slots import Rates, Slots, grown
from railyard.netemu.schedulers.filling import by_arrival
from railyard.netemu.schedulers.reference.varys import Varys

#: A sum from which so much has been taken that this share is left has lost too many digits.
CANCELS = 1e-3
#: A coflow that could end within this share of the time that the clock shows is summed up anew:
#: the clock has too few digits to say what it sent in its last moments.
LAST_MOMENTS = 1e-4
#: A rate that would change by less than this share stays: rounding.  Most that is sent by backfill
#: goes on as before, whatever happens elsewhere.
_STAYS = 1e-12


@njit(cache=True)
def bottlenecks(
    slots: Numbers,
    tables: List,
    paths: List,
    counts: Numbers,
    anew: Bools,
    rates: Rates,
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
    seconds_a_byte, shut = _pace(capacities)
    for number in range(len(slots)):
        slot = slots[number]
        demand, again = link_bytes[slot], anew[slot]
        if not again and rates.bytes_per_s[slot] > 0:
            again = _send(demand, rates.loads[slot], passed_s, summed[slot]) > 0
            again |= _longest_s(demand, seconds_a_byte) < now_s * LAST_MOMENTS
        if again:
            _sum_up(tables[slot], paths[slot], counts[slot], now_s, demand)
            summed[slot, :] = demand
        longest_s[number] = _ends_after_s(demand, seconds_a_byte, shut)
    return longest_s


@njit(cache=True)
def _pace(left: Floats) -> tuple[Floats, Numbers]:
    """How long each link takes for a byte, and the links that take none."""
    seconds_a_byte = np.zeros(len(left))
    for link in range(len(left)):
        if left[link] > 0:
            seconds_a_byte[link] = 1.0 / left[link]
    return seconds_a_byte, np.flatnonzero(left == 0)


@njit(cache=True, fastmath={"reassoc", "nnan", "nsz"})  # several links at a time
def _send(link_bytes: Floats, load: Floats, passed_s: float, summed: Floats) -> int:
    """Note what has been sent; on how many links the rest has lost too many digits."""
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
def _ends_after_s(link_bytes: Floats, seconds_a_byte: Floats, shut: Numbers) -> float:
    """How long the slowest link takes; inf if one that is needed is ``shut``."""
    for link in shut:
        if link_bytes[link] > 0:
            return np.inf
    return _longest_s(link_bytes, seconds_a_byte)


@njit(cache=True, fastmath={"reassoc", "nnan", "nsz"})  # several links at a time
def _longest_s(link_bytes: Floats, seconds_a_byte: Floats) -> float:
    longest_s = 0.0
    for link in range(len(link_bytes)):
        longest_s = max(longest_s, link_bytes[link] * seconds_a_byte[link])
    return longest_s


@njit(cache=True)
def serve(
    order: Numbers,
    tables: List,
    paths: List,
    counts: Numbers,
    anew: Bools,
    sends: Rates,
    link_bytes: Floats,
    left: Floats,
    rounding: Floats,
    now_s: float,
) -> int:
    """MADD for all, then backfill; returns how many slots are ``touched``."""
    _, loads, bytes_per_s, first_finish_s, touched = sends
    speeds = _speeds(order, link_bytes, left, rounding)
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
        is_new = anew[slot]
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
        load_links(table, paths[slot], count, loads[slot])
        bytes_per_s[slot], first_finish_s[slot] = sum_up(table, count)
        touched[those] = slot
        those += 1
    return those


@njit(cache=True)
def _speeds(order: Numbers, link_bytes: Floats, left: Floats, rounding: Floats) -> Floats:
    """1/Γ of each slot in turn: the share of what remains that is sent each second.

    What they take is taken from what is ``left``.
    """
    speeds = np.zeros(len(order))
    seconds_a_byte, first_shut = _pace(left)
    shut, many = np.empty(len(left), np.int64), len(first_shut)
    shut[:many] = first_shut
    for number in range(len(order)):
        demand = link_bytes[order[number]]
        ends_after_s = _ends_after_s(demand, seconds_a_byte, shut[:many])
        speed = speeds[number] = 1.0 / ends_after_s if ends_after_s > 0 else np.inf
        if speed in (0.0, np.inf):
            continue
        for link in range(len(left)):
            if demand[link] <= 0 or left[link] == np.inf:
                continue
            left[link] -= demand[link] * speed
            if left[link] > rounding[link]:
                seconds_a_byte[link] = 1.0 / left[link]
            else:
                left[link] = seconds_a_byte[link] = 0.0
                shut[many] = link
                many += 1
    return speeds


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
        self._slots = Slots(0)
        self._link_bytes: Floats = np.zeros((0, 0))
        self._summed: Floats = np.zeros((0, 0))
        self._decided_s = 0.0
        self._groups: list[Group] = []
        self._numbers: Numbers = np.zeros(0, dtype=np.int64)  #: their slots, by arrival

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
        numbers = self._by_arrival(traffic)
        gammas_s = bottlenecks(
            numbers,
            slots.tables,
            slots.paths,
            slots.counts,
            anew,
            slots.rates,
            self._link_bytes,
            self._summed,
            traffic.now_s - self._decided_s,
            traffic.now_s,
            traffic.capacities,
        )
        self._decided_s = traffic.now_s
        smallest_first = np.argsort(ranks(gammas_s, instant_s(traffic.now_s)), kind="stable")
        order = numbers[smallest_first]  # which are by arrival
        left = traffic.capacities.copy()
        touched = serve(
            order,
            slots.tables,
            slots.paths,
            slots.counts,
            anew,
            slots.rates,
            self._link_bytes,
            left,
            slots.rounding,
            traffic.now_s,
        )
        slots.hand_over(touched)
        return np.inf

    def _by_arrival(self, traffic: Traffic) -> Numbers:
        """The slots, by arrival of their groups."""
        groups = list(traffic.groups)
        if groups != self._groups:
            self._groups = groups
            self._numbers = self._slots.numbers(sorted(groups, key=by_arrival))
        return self._numbers
