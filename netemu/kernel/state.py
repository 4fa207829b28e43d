"""The arrays of flows, rows, groups and links that the loops work on.

A *row* is the flows of one group that are served alike on one path: they all get the same service
(bytes per unit of weight), so a flow ends when its row's service reaches what it needs.  A *group*
is what flow schedulers put in order: the flows of a coflow, or all flows.  A *cell* is a group's
rows on one link.

A *trunk* is a row of all flows from one rack to another, whichever nodes they are between: its path
has no nodes' links, which hardly ever hold such flows back where many share the racks' links.  What
trunks use of a node's link is taken from it before its own rows get the rest; where that holds
flows of trunks back, they get rows of their own (``fabric.store``).  A *nic* is a node's link.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, cast, get_type_hints

import numpy as np

NONE = -1
#: Instead of a moment.
NOT_KNOWN = -1.0
#: The cell of a short path's missing links.
NO_CELL = 0
Table = TypeVar("Table", bound=tuple[Any, ...])
#: An array of NumPy, or where plain Python runs the loops a view of its memory, which is quicker.
Array = Any
Ids: TypeAlias = Annotated[Any, np.int32, "each"]  #: numbers of things
Counts: TypeAlias = Annotated[Any, np.int64, "each"]
Reals: TypeAlias = Annotated[Any, np.float64, "each"]
Flags: TypeAlias = Annotated[Any, np.bool_, "each"]
EntryIds: TypeAlias = Annotated[Any, np.int32, "entries"]  #: for each link of a row's path
TwoReals: TypeAlias = Annotated[Any, np.float64, "two"]
RackIds: TypeAlias = Annotated[Any, np.int32, "racks"]


class Flows(NamedTuple):
    """[flow]"""

    row: Ids  #: its row; NONE: it sends nothing
    before: Ids  #: the flow of its row that ends before it
    after: Ids
    coflow: Ids
    src: Ids  #: nodes
    dst: Ids
    route: Ids  #: what is between these, see ``fabric.store``
    number: Ids  #: flows are numbered as they come
    size: Reals  #: bytes
    weight: Reals
    needs: Reals  #: service of its row with which it has sent all
    joined: Reals  #: service of its row when it joined
    sent: Reals  #: bytes that it had sent when it joined, or stopped
    booked: Reals  #: bytes of these that are counted already
    key: Reals  #: its place among flows that are served one by one
    end_s: Reals


class Rows(NamedTuple):
    """[row], [2 * row + which of two], and [row * longest + position on the path]"""

    group: Ids
    way: Ids  #: number of its path
    flows: Ids  #: how many
    first: Ids  #: the flow that ends first
    last: Ids
    needs: Reals  #: service with which ``first`` has sent all
    weight: Reals  #: of its flows together
    total: Reals  #: sum of weight * needs over its flows
    left: Reals  #: bytes left to send when that was last noted, more than 0; see ``filling``
    served: Reals  #: service as of ``since_s``
    since_s: Reals
    rate: Reals  #: service/s
    key: Reals  #: its place among flows that are served one by one
    parts: TwoReals  #: [2 * row + pass]: what its rate is the sum of, see ``levels``
    due: TwoReals  #: when ``first`` ends, ``NOT_KNOWN`` once that has changed; and bytes/s
    link: EntryIds  #: limited links of its path, then ``none``
    cell: EntryIds
    place: EntryIds  #: its place in ``Work.entries``
    before: Ids  #: the row before it in its line, see ``lines``
    after: Ids


class Cells(NamedTuple):
    """[cell], and [2 * cell + pass], see ``levels``"""

    link: Ids
    begin: Ids  #: its rows are in ``Work.entries`` from there on
    many: Ids  #: how many there are
    room: Ids  #: how many there is room for
    next: Ids  #: the next cell of its group
    first_s: Reals  #: when the first of the rows that begin here ends
    is_dirty: Flags  #: whether that is out of date
    is_queued: Flags
    level: TwoReals  #: service/s to which the link holds rows; inf: it holds none
    load: TwoReals  #: bytes/s; inf: not known
    rate: Reals  #: bytes/s of the rows that begin here


class Groups(NamedTuple):
    """[group]"""

    cell: Ids  #: its first cell
    rows: Ids  #: how many
    sent: Reals  #: bytes as of ``since_s``
    since_s: Reals
    rate: Reals  #: bytes/s
    next_s: Reals  #: when the first of its rows ends
    limit: Reals  #: bytes sent at which the flow scheduler wants to be asked
    left: Reals  #: bytes left to send as of ``added_s``
    added_s: Reals  #: when what it has left was last added up; -inf: it has changed since
    place: Ids  #: its place in the order in which rates were set
    first: Ids  #: [place]: the first of ``Work.sending`` that is of the group there or a later one


class Lines(NamedTuple):
    """[path], where flows are served one by one; see ``lines``"""

    head: Ids  #: the first row
    key: Reals  #: that of ``head``, as of when it was last looked at
    before: Ids  #: among those that begin on the same link, by key
    after: Ids
    link: EntryIds  #: [path * longest]: its links
    ends: Counts  #: what tells the path from others, see ``ways``
    beside: Ids  #: the path before it in its bucket
    is_trunk: Flags  #: whether its rows may have flows over limited nics


class Nics(NamedTuple):
    """[2 * node + 1 if it is the one down], and [.. * racks + rack]"""

    link: Ids  #: its number if it has a limit, else ``none``
    rack: Ids
    many: Ids  #: flows of trunks over it
    to: RackIds  #: how many of these there are to, or from, each rack
    apart: Ids  #: flows get rows of their own while it has fewer rows than this
    used: Reals  #: bytes/s of trunks that are taken from what is left of it
    is_short: Flags  #: whether it holds trunks back


class Work(NamedTuple):
    """What is known of links, what has ended, and scratch space, which is void between calls."""

    capacity: Reals  #: [link]: bytes/s; the last, ``none``, stands for no link
    left: Reals
    unused: Reals
    carried: Reals  #: [route]: bytes of flows that are closed, or take another route now
    trunk: Ids  #: [route]: the number of its trunk's path
    rate: Reals  #: [route]: that of its trunk
    most: Reals  #: [2 * rack + 1 if it is into it]: the most of these
    carried_out: Reals  #: [node]: the same over its link up
    carried_in: Reals
    counts: Counts  #: see ``SENDING`` to ``FREE_ROWS``
    sending: Ids  #: rows with a rate above 0, where all rates are set anew
    ended: Ids  #: flows that have sent all
    freed: Ids  #: rows without flows
    free_rows: Ids  #: those of them that have left their lines
    free_cells: Ids
    entries: Ids  #: rows, as row << shift | position on its path, cell by cell
    weights: Reals  #: of these rows, again, as memory is read faster in its order
    crossed: EntryIds  #: the cells on the path of each, [place << shift + position]
    load: Reals  #: [link]
    summed: Reals
    share: Reals
    rising: Ids
    begin: Ids
    end: Ids
    queue: Ids  #: [link]: links, or cells
    line: Ids  #: the first of the lines that begin there
    waiting: Ids  #: the one of these that is looked at
    heap: Ids  #: links by the keys of these
    heap_key: Reals
    rows: Ids  #: [row]
    wanted: Reals
    other: Reals
    is_frozen: Flags
    through: EntryIds  #: [row * longest]


class State(NamedTuple):
    """All of it."""

    none: int  #: the link that fills up short paths
    longest: int  #: links of the longest path
    shift: int  #: a row has 2**shift entries, of which the first are used
    mask: int  #: 2**shift - 1
    racks: int  #: as routes are numbered, see ``fabric.store``; 0: there are no trunks
    listed: int  #: on how many links of its path a row is listed in cells; 0: it stands in line
    by_bytes: bool  #: whether a flow's weight is what it has left to send
    has_keys: bool  #: whether lines are in the order of ``Rows.key``, or of bytes left
    cell_of: Ids  #: [group * none + link]
    load: Reals  #: [group * none + link]: bytes that it has left over a link as of ``added_s``
    left_after: Reals  #: [place * none + link]: bytes/s that groups up to there leave
    flows: Flows
    rows: Rows
    cells: Cells
    groups: Groups
    lines: Lines
    nics: Nics
    work: Work


#: When a plan ends, beside arrivals: never, when a group has nothing left to send, at any end.
AT_ARRIVALS, AT_GROUPS, AT_ENDS = range(3)
#: Instead of a number of events: what is due does not end.
NO_END = -1
#: Places in ``Work.counts``.
SENDING, ENDED, FREED, FREE_CELLS, EMPTIED, ENTRIES, SERVED, WAYS, ROWS, FREE_ROWS = range(10)
#: The sum of ``Nics.many``, and how many of them are short.
TRUNKED, SHORT = range(10, 12)


@functools.lru_cache(maxsize=64)
def empty_state(sizes: tuple[int, ...], by_bytes: bool, has_keys: bool) -> State:
    """To be ``copied``: without flows, for links of no capacity; the last stands for none."""
    links, longest, listed, routes, nodes, racks = sizes
    shift = (longest - 1).bit_length()
    work = table_of(Work, 0)._replace(counts=np.zeros(12, np.int64))
    of_links = (
        "capacity left unused load summed share rising begin end queue line waiting heap heap_key"
    )
    work = work._replace(
        **{name: _longer(getattr(work, name), links) for name in of_links.split(" ")}
    )
    work = work._replace(
        line=np.full(links, NONE, np.int32),
        trunk=np.zeros(routes, np.int32),
        rate=np.zeros(racks**2),
        most=np.zeros(2 * racks),
        carried=np.zeros(routes),
        carried_out=np.zeros(nodes),
        carried_in=np.zeros(nodes),
    )
    state = State(
        none=links - 1,
        longest=longest,
        shift=shift,
        mask=2**shift - 1,
        racks=racks,
        listed=listed,
        by_bytes=by_bytes,
        has_keys=has_keys,
        cell_of=np.zeros(0, np.int32),
        load=np.zeros(0),
        left_after=np.zeros(0),
        flows=table_of(Flows, 0),
        rows=table_of(Rows, 0),
        cells=table_of(Cells, 0),
        groups=table_of(Groups, 0),
        lines=table_of(Lines, 0),
        nics=table_of(Nics, 2 * nodes, racks=racks),
        work=work,
    )
    return grown(state, flows=16, rows=16, cells=32, groups=4, ways=16)


def grown(
    state: State, *, flows: int = 0, rows: int = 0, cells: int = 0, groups: int = 0, ways: int = 0
) -> State:
    """The same with room for so many, if there is less."""
    made: dict[str, Any] = {}
    work = state.work
    if flows > len(state.flows.row):
        made["flows"] = longer_table(state.flows, flows)
        made["work"] = work = with_longer(work, ("ended",), flows)
    if rows > len(state.rows.group):
        made["rows"] = longer_table(state.rows, rows, entries=1 << state.shift, two=2)
        scratch = ("sending", "freed", "free_rows", "rows", "wanted", "other", "is_frozen")
        work = with_longer(work, scratch, len(made["rows"].group))
        made["work"] = work = with_longer(work, ("through",), len(made["rows"].link))
    if cells > len(state.cells.link):
        before = len(state.cells.link)
        made["cells"] = table = longer_table(state.cells, cells, two=2)
        work = made["work"] = with_longer(work, ("free_cells",), len(table.link))
        table.level[2 * before :] = np.inf  # above all of ``NO_CELL``
        free, counts = range(before or 1, len(table.link)), work.counts
        work.free_cells[counts[FREE_CELLS] : counts[FREE_CELLS] + len(free)] = free
        counts[FREE_CELLS] += len(free)
    if groups > len(state.groups.cell):
        before = len(state.groups.cell)
        made["groups"] = those = longer_table(state.groups, groups)
        those.cell[before:] = NONE
        those.next_s[before:] = those.limit[before:] = np.inf
        many = len(those.cell) * state.none
        made["cell_of"] = cell_of = _longer(state.cell_of, many)
        cell_of[before * state.none :] = NONE
        made["load"] = _longer(state.load, many)
        if state.by_bytes:
            made["left_after"] = _longer(state.left_after, many)
    if ways > len(state.lines.head):
        before = len(state.lines.head)
        made["lines"] = lines = longer_table(state.lines, ways, entries=1 << state.shift)
        lines.head[before:] = NONE
    return state if made == {} else state._replace(**made)


def views(table: Table, before: Table | None = None, seen: Table | None = None) -> Table:
    """The same memory for plain Python, which reads a number of a view in half of the time.

    ``seen``: the views of ``before``; what has not changed since has the same.
    """
    made: list[Any] = []
    for at, value in enumerate(table):
        if before is not None and seen is not None and value is before[at]:
            made.append(seen[at])
        elif isinstance(value, tuple):
            known = (None, None) if before is None or seen is None else (before[at], seen[at])
            made.append(views(value, *known))
        else:
            made.append(value if isinstance(value, int) else memoryview(value))
    return type(table)(*made)


# Tables ------------------------------------------------------------------------------------------
def table_of(kind: type[Table], many: int, **each: int) -> Table:
    """A table of zeros for that many things.

    ``each``: how many numbers a thing has in arrays that say so where they are declared; else one.
    """
    return kind(*(np.zeros(many * each.get(of, 1), dtype) for dtype, of in _kinds(kind)))


def copied(table: Table) -> Table:
    """The same numbers in other arrays."""
    made: list[Any] = [
        copied(v) if isinstance(v, tuple) else v if isinstance(v, int) else v.copy() for v in table
    ]
    return type(table)(*made)


def longer_table(table: Table, many: int, **each: int) -> Table:
    """The same with room for that many things, or for twice as many as it had."""
    made = table_of(type(table), max(many, 2 * len(table[0])), **each)
    for array, longer in zip(table, made, strict=True):
        longer[: len(array)] = array
    return made


def with_longer(table: Table, names: tuple[str, ...], many: int) -> Table:
    """A table in which these arrays have room for that many, or for twice as many as they had."""
    many = max(many, 2 * len(getattr(table, names[0])))
    longer = {name: _longer(getattr(table, name), many) for name in names}
    return cast("Table", cast("Any", table)._replace(**longer))


@functools.cache
def _kinds(table: Any) -> list[tuple[Any, str]]:
    """[array]: the type of its numbers, and how many of them a thing has"""
    hints = get_type_hints(table, include_extras=True)
    return [hint.__metadata__ for hint in hints.values()]


def _longer(array: Array, many: int) -> Array:
    longer = np.zeros(many, array.dtype)
    longer[: len(array)] = array
    return longer
