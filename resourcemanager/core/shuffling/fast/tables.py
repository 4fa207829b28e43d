"""Many fetches end: those of all stages in one loop, in the order in which they end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.typed import List
from numpy.typing import NDArray

from railyard.netemu.model.arrays import Bools, Floats, Numbers

Counts = NDArray[np.int32]


class TableArrays(NamedTuple):
    """The arrays of a ``FetchTable``."""

    node_number: Numbers
    reader_node: Numbers
    ready: Numbers
    ready_bytes: Numbers
    is_open: Bools
    arrived: Counts
    asked: Counts
    arrived_bytes: Numbers
    size_bytes: Numbers
    started_s: Floats
    names: Counts
    order: Numbers
    sequence: Counts
    #: of fetches that have ended since they were last counted: bytes in all, within nodes, and
    #: within racks
    moved_bytes: Numbers
    sent_bytes: Numbers  #: and between racks, by rack
    received_bytes: Numbers
    ended_s: Floats  #: when the last one between two nodes ended, if any: one number


class Tables:
    """The arrays of all tables, by their numbers, and of which rack each node is.

    A fetch's number is that of its table, of its node there, and of its reader's task: the last two
    have so many ``bits`` each.
    """

    def __init__(self, rack_of: Numbers, bits: int) -> None:
        self._rack_of = rack_of
        self._bits = bits
        self._arrays: List | None = None

    def put(self, number: int, arrays: TableArrays) -> None:
        """Use these arrays for a table; the numbers of new tables follow one another from 1 on."""
        if self._arrays is None:
            self._arrays = _first(arrays)
        _put(self._arrays, number, arrays)

    def end(self, fetches: Numbers, now_s: float, begun: int) -> Numbers:
        """Fetches have ended, in this order: what is new at their nodes is fetched next.

        ``begun``: how many fetches began before.  Returns what begins: [column, fetch], with the
        columns of ``StartFetches``.
        """
        found: Numbers = _end(self._arrays, fetches, self._bits, self._rack_of, now_s, begun)
        return found

    def arriving(self, fetches: Numbers) -> tuple[Numbers, Numbers, Floats]:
        """What fetches under way will bring: how many outputs, their bytes, and since when."""
        found: tuple[Numbers, Numbers, Floats] = _arriving(self._arrays, fetches, self._bits)
        return found


@njit(cache=True)
def _first(arrays: TableArrays) -> List:
    """A list with a table of the number 0, which no table has.

    Made in a compiled loop: from Python, numba would compile it again in each process.
    """
    tables = List()
    tables.append(arrays)
    return tables


@njit(cache=True)
def _put(tables: List, number: int, arrays: TableArrays) -> None:
    while len(tables) <= number:
        tables.append(arrays)
    tables[number] = arrays


@njit(cache=True)
def _end(
    tables: List, fetches: Numbers, bits: int, rack_of: Numbers, now_s: float, begun: int
) -> Numbers:
    mask, last, table, count = (1 << bits) - 1, 0, tables[0], 0
    found = np.empty((5, len(fetches)), np.int64)
    for number in range(len(fetches)):
        fetch = fetches[number]
        task, node, of_table = fetch & mask, fetch >> bits & mask, fetch >> (2 * bits)
        if of_table != last:
            last, table = of_table, tables[of_table]
        src, dst = table.node_number[node], table.reader_node[task]
        _count(table, rack_of, src, dst, table.size_bytes[node, task], now_s)
        table.is_open[node, task] = False
        table.arrived[node, task] = asked = table.asked[node, task]
        table.arrived_bytes[node, task] += table.size_bytes[node, task]
        ready = table.ready[node]
        if asked == ready:
            continue
        table.is_open[node, task] = True
        table.asked[node, task] = ready
        size_bytes = table.ready_bytes[node, task] - table.arrived_bytes[node, task]
        table.size_bytes[node, task] = size_bytes
        table.started_s[node, task] = now_s
        table.order[node, task] = begun + count
        table.names[node, task] = table.sequence[task]
        table.sequence[task] += 1
        found[0, count], found[1, count], found[2, count] = fetch, src, dst
        found[3, count], found[4, count] = size_bytes, number
        count += 1
    return found[:, :count].copy()


@njit(cache=True)
def _count(
    table: TableArrays, rack_of: Numbers, src: int, dst: int, size_bytes: int, now_s: float
) -> None:
    """Count what a fetch has brought."""
    table.moved_bytes[0] += size_bytes
    if src == dst:
        table.moved_bytes[1] += size_bytes
        return
    table.ended_s[0] = now_s
    source, target = rack_of[src], rack_of[dst]
    if source == target:
        table.moved_bytes[2] += size_bytes
    else:
        table.sent_bytes[source] += size_bytes
        table.received_bytes[target] += size_bytes


@njit(cache=True)
def _arriving(tables: List, fetches: Numbers, bits: int) -> tuple[Numbers, Numbers, Floats]:
    mask, last, table = (1 << bits) - 1, 0, tables[0]
    outputs, sizes = np.empty(len(fetches), np.int64), np.empty(len(fetches), np.int64)
    started_s = np.empty(len(fetches))
    for number in range(len(fetches)):
        fetch = fetches[number]
        task, node, of_table = fetch & mask, fetch >> bits & mask, fetch >> (2 * bits)
        if of_table != last:
            last, table = of_table, tables[of_table]
        outputs[number] = table.asked[node, task] - table.arrived[node, task]
        sizes[number] = table.size_bytes[node, task]
        started_s[number] = table.started_s[node, task]
    return outputs, sizes, started_s
