"""Which links limit flows, and which rows they join there.

A *way* is the links with limits on a route, and among the nodes' own links: flows of one way are
alike to the loops.  Ways have numbers, as they are first asked for.  A way's rows, one for each
group or, where flows are served one by one, for each flow, stand in its line.
"""

from __future__ import annotations

from typing import NamedTuple

from railyard.netemu.kernel.rows import join, put_between, take_out
from railyard.netemu.kernel.state import FREE_ROWS, FREED, NONE, ROWS, WAYS, Array, Ids, State


class Ways(NamedTuple):
    """What tells ways from each other: their ends, and what is between."""

    middle: Ids  #: [route]: the number of its links with limits; NONE: it is not known yet
    middle_link: Ids  #: [middle, position]: these, then ``State.none``
    bucket: Ids  #: the last way that fell there


def open_all(
    new: Array, columns: tuple[Array, Array, Array, Array, Array], first: int, racks: int, s: State
) -> None:
    """Have flows that send nothing yet; ``first``: how many there were before.

    ``columns``: their src, dst, coflow, size in bytes and weight.
    """
    flows = s.flows
    src, dst, coflow, size_bytes, weight = columns
    for at in range(len(new)):
        flow = new[at]
        flows.row[flow], flows.coflow[flow], flows.number[flow] = NONE, coflow[at], first + at
        flows.src[flow], flows.dst[flow] = src[at], dst[at]
        flows.route[flow] = 2 * racks * racks
        if src[at] != dst[at]:
            near, far = s.nics.rack[2 * src[at]], s.nics.rack[2 * dst[at]]
            flows.route[flow] = near * racks + far
        flows.size[flow], flows.weight[flow] = size_bytes[at], weight[at]
        flows.sent[flow] = flows.booked[flow] = 0.0


def find_all(going: Array, found: Array, has_trunks: bool, s: State, w: Ways) -> int:
    """Find the way of each flow by packets; NONE: no link limits it.

    What is between its racks must be known, and there must be room for as many new ways.
    ``has_trunks``: flows may join trunks.  Returns how many flows have no way, or nothing to send.
    """
    idle, flows = 0, s.flows
    for at in range(len(going)):
        flow = going[at]
        is_trunk = has_trunks and can_join_trunk(flow, s, w)
        found[at] = find(flow, is_trunk, s, w)
        if is_trunk:
            s.lines.is_trunk[found[at]], s.work.trunk[flows.route[flow]] = True, found[at]
        if found[at] == NONE or flows.sent[flow] >= flows.size[flow]:
            idle += 1
    return idle


def can_join_trunk(flow: int, s: State, w: Ways) -> bool:
    """Whether a flow is between racks, and may be in one row with others between them."""
    flows, nics, route = s.flows, s.nics, s.flows.route[flow]
    near, far = route // s.racks, route % s.racks
    if near == far or max(near, far) >= s.racks - 1 or flows.weight[flow] != 1.0:  # sums are whole
        return False
    if w.middle_link[w.middle[route] << s.shift] == s.none:
        return False
    for nic in (2 * flows.src[flow], 2 * flows.dst[flow] + 1):
        if nics.link[nic] != s.none and nics.apart[nic] > 0:
            cell = s.cell_of[nics.link[nic]]
            if cell == NONE:
                nics.apart[nic] = 0
            elif s.cells.many[cell] < nics.apart[nic]:
                return False
    return True


def find(flow: int, is_trunk: bool, s: State, w: Ways) -> int:
    """The way of one flow."""
    src, dst, middle = s.flows.src[flow], s.flows.dst[flow], w.middle[s.flows.route[flow]]
    nodes, link_up, link_down = 1 + len(s.nics.link) // 2, s.nics.link[2 * src], s.none
    up = down = nodes - 1
    if src != dst and not is_trunk:
        link_down = s.nics.link[2 * dst + 1]
        up = src if link_up != s.none else up
        down = dst if link_down != s.none else down
    if up == down == nodes - 1 and w.middle_link[middle << s.shift] == s.none:
        return NONE
    ends, lines, links = (middle * nodes + up) * nodes + down, s.lines, s.lines.link
    bucket = ends % len(w.bucket)
    way = w.bucket[bucket]
    while way != NONE and lines.ends[way] != ends:
        way = lines.beside[way]
    if way != NONE:
        return way
    way = s.work.counts[WAYS]
    s.work.counts[WAYS] += 1
    lines.ends[way], lines.beside[way], w.bucket[bucket] = ends, w.bucket[bucket], way
    lines.is_trunk[way] = False
    at = way << s.shift
    if up < nodes - 1:
        links[at] = link_up
        at += 1
    entry = middle << s.shift
    while entry < (middle + 1) << s.shift and w.middle_link[entry] != s.none:
        links[at] = w.middle_link[entry]
        at, entry = at + 1, entry + 1
    if down < nodes - 1:
        links[at] = link_down
        at += 1
    while at < (way + 1) << s.shift:
        links[at] = s.none
        at += 1
    return way


def join_all(new: Array, ways: Array, by_group: bool, now_s: float, s: State) -> None:
    """Let flows, which have something to send, join rows; of one row, the first to end come first.

    There is room for as many new rows.
    """
    flows = s.flows
    for at in range(len(new)):
        flow, way = new[at], ways[at]
        group = flows.coflow[flow] if by_group else 0
        if s.by_bytes:
            flows.weight[flow] = flows.size[flow] - flows.sent[flow]
            s.groups.sent[group] += flows.weight[flow]
        row = s.lines.head[way] if s.listed > 0 else NONE
        while row != NONE and s.rows.group[row] != group:
            row = s.rows.after[row]
        if row == NONE:
            row = new_row(way, group, s)
        if s.listed == 0:
            s.rows.key[row] = flows.key[flow]
        join(flow, row, now_s, s)


def new_row(way: int, group: int, s: State) -> int:
    """A row without flows."""
    rows, head, work = s.rows, s.lines.head, s.work
    if work.counts[FREE_ROWS] > 0:
        work.counts[FREE_ROWS] -= 1
        row = work.free_rows[work.counts[FREE_ROWS]]
    else:
        row = work.counts[ROWS]
        work.counts[ROWS] += 1
    rows.group[row], rows.way[row], rows.flows[row] = group, way, 0
    for at in range(s.longest):
        rows.link[(row << s.shift) + at] = s.lines.link[(way << s.shift) + at]
    if s.listed > 0:  # else it gets its place in the line with its flow
        put_between(row, NONE, head[way], rows.before, rows.after, head, way)
    return row


def free_rows(s: State) -> None:
    """Have rows that have no flows any more for others."""
    rows, head, work = s.rows, s.lines.head, s.work
    freed = work.counts[FREED]
    for at in range(freed):
        row = work.freed[freed - 1 - at]
        if s.listed > 0:
            take_out(row, rows.before, rows.after, head, rows.way[row])
        work.free_rows[work.counts[FREE_ROWS]] = row
        work.counts[FREE_ROWS] += 1
    work.counts[FREED] = 0
