"""What happens to the rows and slots of a flow table, as flows come and end by the hundred.

All of it comes to what ``FlowGroup`` comes to, to the last bit: sums are made in the same order.
The sum of rates alone is left to numpy, which adds in an order of its own.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.openflows import KEEPS, ROUNDING, SERVICE_BYTES_MAX
from railyard.netemu.model.rows import FINISH_S, NEEDS, RATE, SERVED, SINCE_S, TOTAL, WEIGHT

#: The numbers of a slot: the flow's name (-1: it has an object), its place among all flows, nodes
#: by their places in the topology, and bytes.
NAME, SEQUENCE, SRC, DST, SIZE = range(5)
#: And those with fractions: the service of its row when it joined, when it will have ended, its
#: weight, and what it had sent before it joined.
FLOW_JOINED, FLOW_NEEDS, FLOW_WEIGHT, FLOW_BEFORE = range(4)


@njit(cache=True)
def take_due(
    rows: Numbers,
    by_s: float,
    now_s: float,
    table: Floats,
    places: Numbers,
    needs: Floats,
    ints: Numbers,
    floats: Floats,
) -> tuple[Numbers, Numbers, Floats, Floats, Numbers]:
    """Take the flows out of rows that have sent all by ``by_s``, as the first of each now has.

    Returns their slots; the rows that have others left, and what these rows lose of their weights
    and bytes; and the rows that have none left.
    """
    most, count, lefts, ends = places.shape[1], 0, 0, 0
    slots = np.empty(len(rows) * most, np.int64)
    left, ended = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    weights, totals = np.empty(len(rows)), np.empty(len(rows))
    for row in rows:
        enough, first, stays = _serve_first(table, row, by_s, now_s), count, False
        for place in range(most):
            slot = places[row, place]
            if slot < 0:
                continue
            if needs[row, place] > enough:
                stays = True
                continue
            slots[count] = slot
            count += 1
            places[row, place], needs[row, place] = -1, np.inf
        if not stays:
            ended[ends] = row
            ends += 1
            continue
        those = slots[first:count]
        _sort(those, ints, floats)
        weight = total = 0.0
        for slot in those:
            weight += floats[FLOW_WEIGHT, slot]
            total += floats[FLOW_WEIGHT, slot] * floats[FLOW_NEEDS, slot]
        left[lefts], weights[lefts], totals[lefts] = row, -weight, -total
        lefts += 1
    return slots[:count], left[:lefts], weights[:lefts], totals[:lefts], ended[:ends]


@njit(cache=True)
def take_slots(
    coming: Numbers,
    slots: Numbers,
    nodes: int,
    row_of: Numbers,
    count: int,
    ints: Numbers,
    floats: Floats,
    rows_of_slots: Numbers,
) -> tuple[Numbers, Numbers]:
    """Give flows that are ``coming``, [number, flow], these slots, and rows: there are ``count``.

    They have the weight 1.  Returns the rows, and which of the flows are the first of new rows.
    """
    many, fresh = 0, np.empty(len(slots), np.int64)
    rows = np.empty(len(slots), np.int64)
    for number in range(len(slots)):
        slot, pair = slots[number], coming[SRC, number] * nodes + coming[DST, number]
        for column in range(len(ints)):
            ints[column, slot] = coming[column, number]
        for column in range(len(floats)):
            floats[column, slot] = 0.0
        floats[FLOW_WEIGHT, slot] = 1.0
        if row_of[pair] == 0:
            row_of[pair] = count + many + 1
            fresh[many] = number
            many += 1
        rows[number] = rows_of_slots[slot] = row_of[pair] - 1
    return rows, fresh[:many]


@njit(cache=True)
def begin_rows(first_row: int, count: int, now_s: float, table: Floats) -> None:
    """Note the time at new rows, which are zeros so far."""
    for row in range(first_row, count):
        table[NEEDS, row] = table[FINISH_S, row] = np.inf
        table[SINCE_S, row] = now_s


@njit(cache=True)
def begin_anew(
    rows: Numbers,
    slots: Numbers,
    now_s: float,
    table: Floats,
    places: Numbers,
    needs: Floats,
    ints: Numbers,
    floats: Floats,
) -> bool:
    """Count the service of rows that these flows are to join from 0 if it is large for one.

    Returns whether there is such a row; see ``SERVICE_BYTES_MAX``.
    """
    found = False
    for number in range(len(rows)):
        row = rows[number]
        served = _served(table, row, now_s)
        if served * floats[FLOW_WEIGHT, slots[number]] <= SERVICE_BYTES_MAX:
            continue
        for place in range(places.shape[1]):
            slot = places[row, place]
            if slot >= 0:
                floats[FLOW_JOINED, slot] -= served
                floats[FLOW_NEEDS, slot] -= served
                needs[row, place] = floats[FLOW_NEEDS, slot]
        table[SERVED, row], table[SINCE_S, row] = 0.0, now_s
        _sum_anew(row, table, places, ints, floats)
        found = True
    return found


@njit(cache=True)
def join(
    first: int,
    rows: Numbers,
    slots: Numbers,
    now_s: float,
    table: Floats,
    places: Numbers,
    needs: Floats,
    ints: Numbers,
    floats: Floats,
) -> int:
    """Let flows join their rows, from the ``first`` on; returns at which there is no place."""
    for number in range(first, len(rows)):
        row, slot, place = rows[number], slots[number], 0
        while place < places.shape[1] and places[row, place] >= 0:
            place += 1
        if place == places.shape[1]:
            return number
        served = _served(table, row, now_s)
        table[SERVED, row], table[SINCE_S, row] = served, now_s
        weight = floats[FLOW_WEIGHT, slot]
        need = served + (ints[SIZE, slot] - floats[FLOW_BEFORE, slot]) / weight
        floats[FLOW_JOINED, slot], floats[FLOW_NEEDS, slot] = served, need
        places[row, place], needs[row, place] = slot, need
    return len(rows)


@njit(cache=True)
def weigh_new(first_row: int, rows: Numbers, slots: Numbers, table: Floats, floats: Floats) -> None:
    """Sum up the flows of new rows, from ``first_row`` on."""
    for number in range(len(rows)):
        row, slot = rows[number], slots[number]
        if row >= first_row:
            weight, need = floats[FLOW_WEIGHT, slot], floats[FLOW_NEEDS, slot]
            table[WEIGHT, row] += weight
            table[TOTAL, row] += weight * need
            table[NEEDS, row] = min(table[NEEDS, row], need)


@njit(cache=True)
def joined(
    first_row: int, rows: Numbers, slots: Numbers, floats: Floats
) -> tuple[Numbers, Floats, Floats]:
    """The flows whose rows were there before ``first_row``: these, their weights and bytes."""
    count, old = 0, np.empty(len(rows), np.int64)
    weights, totals = np.empty(len(rows)), np.empty(len(rows))
    for number in range(len(rows)):
        if rows[number] < first_row:
            weight = floats[FLOW_WEIGHT, slots[number]]
            old[count], weights[count] = rows[number], weight
            totals[count] = weight * floats[FLOW_NEEDS, slots[number]]
            count += 1
    return old[:count], weights[:count], totals[:count]


@njit(cache=True)
def change_rows(
    rows: Numbers,
    weights: Floats,
    totals: Floats,
    now_s: float,
    table: Floats,
    paths: Numbers,
    places: Numbers,
    needs: Floats,
    ints: Numbers,
    floats: Floats,
    load: Floats,
) -> tuple[Floats, Floats]:
    """Update rows whose flows have changed; see ``SharedRows._change``.

    Returns how many bytes/s more each of them sends that sends, and the load of all links then.
    """
    count, more, by_place = 0, np.empty(len(rows)), np.zeros((len(paths), len(load)))
    for number in range(len(rows)):
        row = rows[number]
        enough, enough_bytes = table[WEIGHT, row] * KEEPS, table[TOTAL, row] * KEEPS
        table[WEIGHT, row] += weights[number]
        table[TOTAL, row] += totals[number]
        if table[WEIGHT, row] < enough or table[TOTAL, row] < enough_bytes:
            _sum_anew(row, table, places, ints, floats)
    for number in range(len(rows)):
        row, least = rows[number], np.inf
        for place in range(needs.shape[1]):
            least = min(least, needs[row, place])
        table[NEEDS, row], rate = least, table[RATE, row]
        if not 0 < rate < np.inf:
            continue
        table[FINISH_S, row] = now_s + max(least - table[SERVED, row], 0.0) / rate
        more[count] = rate * weights[number]
        for position in range(len(paths)):
            by_place[position, paths[position, row]] += more[count]
        count += 1
    total = np.empty(len(load))
    for link in range(len(load)):
        total[link] = by_place[0, link]
        for position in range(1, len(paths)):
            total[link] += by_place[position, link]
        if link == len(load) - 1:
            total[link] = 0.0  # stands for no link
        total[link] = max(total[link] + load[link], 0.0)
    return more[:count], total


@njit(cache=True)
def links_between(src: Numbers, dst: Numbers, ends: Numbers, rack: Numbers, none: int) -> Numbers:
    """[position, pair]: the links from nodes to others, where racks are linked to one switch.

    ``ends`` [position, node] has the node's and its rack's; ``none`` fills up short ways.
    """
    links = np.empty((4, len(src)), np.int64)
    for pair in range(len(src)):
        links[0, pair] = ends[0, src[pair]]
        if rack[src[pair]] == rack[dst[pair]]:
            links[1, pair], links[2, pair], links[3, pair] = ends[3, dst[pair]], none, none
        else:
            links[1, pair], links[2, pair] = ends[1, src[pair]], ends[2, dst[pair]]
            links[3, pair] = ends[3, dst[pair]]
    return links


@njit(cache=True)
def sum_by_link(links: Numbers, size_bytes: Numbers, many: int) -> Floats:
    """Sums of bytes by link, of [position, flow]."""
    total = np.zeros(many)
    for position in range(len(links)):
        for flow in range(len(size_bytes)):
            total[links[position, flow]] += size_bytes[flow]
    return total


# Inside ------------------------------------------------------------------------------------------
@njit(cache=True)
def _served(table: Floats, row: int, now_s: float) -> float:
    """The service of a row by now."""
    passed_s = now_s - table[SINCE_S, row]
    served: float = table[SERVED, row]
    return served + table[RATE, row] * passed_s if passed_s > 0 else served


@njit(cache=True)
def _serve_first(table: Floats, row: int, by_s: float, now_s: float) -> float:
    """Have a row served as its first flow needs that ends now; see ``SharedRows._serve_first``."""
    need: float = table[NEEDS, row]
    table[SERVED, row], table[SINCE_S, row] = max(_served(table, row, now_s), need), now_s
    rate = table[RATE, row]
    return np.inf if rate == np.inf else need * ROUNDING + rate * (by_s - now_s)


@njit(cache=True)
def _sum_anew(row: int, table: Floats, places: Numbers, ints: Numbers, floats: Floats) -> None:
    """Sum up the flows of a row, as they came."""
    slots = places[row][places[row] >= 0]
    table[WEIGHT, row] = table[TOTAL, row] = 0.0
    for slot in slots[np.argsort(ints[SEQUENCE][slots])]:
        table[WEIGHT, row] += floats[FLOW_WEIGHT, slot]
        table[TOTAL, row] += floats[FLOW_WEIGHT, slot] * floats[FLOW_NEEDS, slot]


@njit(cache=True)
def _sort(slots: Numbers, ints: Numbers, floats: Floats) -> None:
    """Sort the few flows of a row by what they need, then as they came."""
    for number in range(1, len(slots)):
        slot, place = slots[number], number
        need, sequence = floats[FLOW_NEEDS, slot], ints[SEQUENCE, slot]
        while place > 0:
            other = floats[FLOW_NEEDS, slots[place - 1]]
            if other < need or (other == need and ints[SEQUENCE, slots[place - 1]] < sequence):
                break
            slots[place] = slots[place - 1]
            place -= 1
        slots[place] = slot
