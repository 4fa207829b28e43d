"""The arrays of flows, rows, groups and links that the loops work on.

A *row* is the flows of one group that are served alike on one path: they all get the same service
(bytes per unit of weight), so a flow ends when its row's service reaches what it needs.  A *group*
is what flow schedulers put in order: the flows of a coflow, or all flows.  A *cell* is a group's
rows on one link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from railyard.netemu.model.arrays import Floats

NONE = -1
#: The cell of a short path's missing links.
NO_CELL = 0
#: An array of NumPy, or where plain Python runs the loops a view of its memory, which is quicker.
Array = Any


class Flows(NamedTuple):
    """[flow]"""

    row: Array  #: its row; NONE: it sends nothing
    before: Array  #: the flow of its row that ends before it
    after: Array
    coflow: Array
    route: Array
    size: Array  #: bytes, as far as they are known
    weight: Array
    needs: Array  #: service of its row with which it has sent all
    joined: Array  #: service of its row when it joined
    sent: Array  #: bytes that it had sent when it joined, or stopped
    booked: Array  #: bytes of these that are counted already
    key: Array  #: its place among flows that are served one by one
    more: Array  #: whether it may grow
    end_s: Array


class Rows(NamedTuple):
    """[row], and [row * longest + position on the path]"""

    group: Array
    way: Array  #: number of its path
    flows: Array  #: how many
    first: Array  #: the flow that ends first
    last: Array
    weight: Array  #: of its flows together
    total: Array  #: sum of weight * needs over its flows
    served: Array  #: service as of ``since_s``
    since_s: Array
    rate: Array  #: service/s
    key: Array  #: its place among flows that are served one by one
    parts: Array  #: [2 * row + pass]: what its rate is the sum of, see ``levels``
    link: Array  #: limited links of its path, then ``none``
    cell: Array
    place: Array  #: its place in ``Work.entries``
    before: Array  #: the row before it in its line, see ``lines``
    after: Array


class Cells(NamedTuple):
    """[cell], and [2 * cell + pass], see ``levels``"""

    link: Array
    begin: Array  #: its rows are in ``Work.entries`` from there on
    many: Array  #: how many there are
    room: Array  #: how many there is room for
    next: Array  #: the next cell of its group
    first_s: Array  #: when the first of the rows that begin here ends
    is_dirty: Array  #: whether that is out of date
    is_queued: Array
    level: Array  #: service/s to which the link holds rows; inf: it holds none
    load: Array  #: bytes/s; inf: not known
    rate: Array  #: bytes/s of the rows that begin here


class Groups(NamedTuple):
    """[group]"""

    cell: Array  #: its first cell
    rows: Array  #: how many
    sent: Array  #: bytes as of ``since_s``
    since_s: Array
    rate: Array  #: bytes/s
    next_s: Array  #: when the first of its rows ends
    limit: Array  #: bytes sent at which the flow scheduler wants to be asked


class Lines(NamedTuple):
    """[path], where flows are served one by one; see ``lines``"""

    head: Array  #: the first row
    is_moved: Array  #: whether the key of that has changed
    is_queued: Array
    queue: Array  #: paths with rows, by key
    key: Array
    moving: Array
    moving_key: Array


class Work(NamedTuple):
    """What is known of links, what has ended, and scratch space, which is void between calls."""

    capacity: Array  #: [link]: bytes/s; the last, ``none``, stands for no link
    left: Array
    unused: Array
    carried: Array  #: [route]: bytes of flows that are closed, or take another route now
    counts: Array  #: see ``SENDING`` to ``FREED``
    sending: Array  #: rows with a rate above 0, where all rates are set anew
    ended: Array  #: flows that have sent all
    freed: Array  #: rows without flows
    free_cells: Array
    entries: Array  #: rows, as row << shift | position on its path, cell by cell
    load: Array  #: [link]
    summed: Array
    share: Array
    rising: Array
    begin: Array
    end: Array
    queue: Array  #: [link]: links, or cells
    rows: Array  #: [row]
    wanted: Array
    other: Array
    is_frozen: Array
    through: Array  #: [row * longest]


class State(NamedTuple):
    """All of it."""

    none: int  #: the link that fills up short paths
    longest: int  #: links of the longest path
    shift: int  #: a row has 2**shift entries, of which the first are used
    mask: int  #: 2**shift - 1
    listed: int  #: on how many links of its path a row is listed in cells; 0: it stands in line
    by_bytes: bool  #: whether a flow's weight is what it has left to send
    has_keys: bool  #: whether lines are in the order of ``Rows.key``, or of bytes left
    cell_of: Array  #: [group * none + link]
    flows: Flows
    rows: Rows
    cells: Cells
    groups: Groups
    lines: Lines
    work: Work


#: When a plan ends, beside arrivals: never, when a group has nothing left to send, at any end.
AT_ARRIVALS, AT_GROUPS, AT_ENDS = range(3)
#: Instead of a number of events: what is due does not end.
NO_END = -1
#: Places in ``Work.counts``.
SENDING, ENDED, FREED, FREE_CELLS, EMPTIED, LINES, ENTRIES = range(7)

_I, _F, _B = np.dtype(np.int32), np.dtype(np.float64), np.dtype(np.bool_)
#: Arrays that are no ids, by name.
_FLOATS = frozenset(
    "size weight needs joined sent booked end_s total served since_s rate key parts first_s level"
    " load next_s limit capacity left unused carried summed share wanted other moving_key sent".split()
)
_BOOLS = frozenset("more is_dirty is_queued is_frozen is_moved".split())
#: How many numbers each of a table's things has in an array, if not one.
_PER_ROW = frozenset("link cell place through".split())
_PER_PASS = frozenset("parts level load".split())


def new_state(
    capacity: Floats, longest: int, listed: int, *, by_bytes: bool, has_keys: bool
) -> State:
    """Arrays without flows, for links of these bytes/s, the last of which stands for none."""
    links, shift = len(capacity), (longest - 1).bit_length()
    work = {name: np.zeros(0, _kind(name)) for name in Work._fields}
    for name in ("left", "unused", "load", "summed", "share"):
        work[name] = np.zeros(links)
    for name in ("rising", "begin", "end", "queue"):
        work[name] = np.zeros(links, _I)
    work["capacity"], work["counts"] = capacity.copy(), np.zeros(7, np.int64)
    tables = [table(*(np.zeros(0, _kind(f)) for f in table._fields)) for table in _TABLES]
    state = State(links - 1, longest, shift, 2**shift - 1, listed, by_bytes, has_keys, np.zeros(0, _I), *tables, Work(**work))
    return grown(state, flows=16, rows=16, cells=16, groups=1, routes=16, ways=16)


def grown(
    state: State,
    *,
    flows: int = 0,
    rows: int = 0,
    cells: int = 0,
    groups: int = 0,
    routes: int = 0,
    ways: int = 0,
) -> State:
    """The same with room for so many, if there is less."""
    wide = {name: 1 << state.shift for name in _PER_ROW}
    made: dict[str, Any] = {}
    work = state.work
    if flows > len(state.flows.row):
        made["flows"] = _table(state.flows, flows, {})
        made["work"] = work = _some(work, ("ended",), flows)
    if rows > len(state.rows.group):
        two = dict.fromkeys(_PER_PASS, 2)
        made["rows"] = _table(state.rows, rows, wide | two)
        scratch = ("sending", "freed", "rows", "wanted", "other", "is_frozen")
        work = _some(work, scratch, len(made["rows"].group))
        made["work"] = work = _some(work, ("through",), len(made["rows"].link))
    if cells > len(state.cells.link):
        before = len(state.cells.link)
        made["cells"] = table = _table(state.cells, cells, dict.fromkeys(_PER_PASS, 2))
        work = made["work"] = _some(work, ("free_cells",), len(table.link))
        table.level[2 * before :] = np.inf  # above all of ``NO_CELL``
        free, counts = range(before or 1, len(table.link)), work.counts
        work.free_cells[counts[FREE_CELLS] : counts[FREE_CELLS] + len(free)] = free
        counts[FREE_CELLS] += len(free)
    if groups > len(state.groups.cell):
        before = len(state.groups.cell)
        made["groups"] = table = _table(state.groups, groups, {})
        table.cell[before:] = NONE
        table.next_s[before:] = table.limit[before:] = np.inf
        many = len(table.cell) * state.none
        made["cell_of"] = cell_of = _longer(state.cell_of, many)
        cell_of[before * state.none :] = NONE
    if ways > len(state.lines.head):
        before = len(state.lines.head)
        made["lines"] = lines = _table(state.lines, ways, {})
        lines.head[before:] = NONE
    if routes > len(state.work.carried):
        made["work"] = _some(work, ("carried",), routes)
    return state if made == {} else state._replace(**made)


def widened(state: State, longest: int, listed: int) -> State:
    """The same for paths of so many links; no row has flows."""
    shift, rows = (longest - 1).bit_length(), len(state.rows.group)
    empty = Rows(*(np.zeros(0, array.dtype) for array in state.rows))
    sizes = {"longest": longest, "shift": shift, "mask": 2**shift - 1, "listed": listed}
    return grown(state._replace(rows=empty, **sizes), rows=rows)


def views(state: State) -> State:
    """The same memory for plain Python, which reads a number of a view in half of the time."""
    return _mapped(state, memoryview)


def _mapped(values: Any, change: Callable[[Any], Any]) -> Any:
    made = [
        value if isinstance(value, int) else _mapped(value, change) if isinstance(value, tuple)
        else change(value)
        for value in values
    ]
    return type(values)(*made)


_TABLES = (Flows, Rows, Cells, Groups, Lines)


def _kind(name: str) -> np.dtype[Any]:
    return _F if name in _FLOATS else _B if name in _BOOLS else _I


def _table(table: Any, many: int, wide: dict[str, int]) -> Any:
    """A table with room for that many, and for as many again as it had."""
    before = len(table[0])
    many = max(many, 2 * before)
    return type(table)(
        *(
            _longer(array, many * (len(array) // before if before else wide.get(name, 1)))
            for name, array in zip(table._fields, table, strict=True)
        )
    )


def _some(work: Work, names: tuple[str, ...], many: int) -> Work:
    many = max(many, 2 * len(getattr(work, names[0])))
    return work._replace(**{name: _longer(getattr(work, name), many) for name in names})


def _longer(array: Array, many: int) -> Array:
    longer = np.zeros(many, array.dtype)
    longer[: len(array)] = array
    return longer
