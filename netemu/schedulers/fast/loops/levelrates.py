"""The rates of a group's rows, from the levels of the links that they cross (see ``leveling``)."""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import FINISH_S, RATE
from railyard.netemu.schedulers.fast.loops.borrowing import borrows
from railyard.netemu.schedulers.fast.loops.filling import Indices
from railyard.netemu.schedulers.fast.loops.linklists import BLOCK, Memory, RowLists, Work
from railyard.netemu.schedulers.fast.loops.rows import change_rate, differs, first_finish

#: A rate that would change by less than this share stays.
STAYS = 1e-13
#: All rows are looked at if the links with other levels have this many entries, as a share of them:
#: one after the other, a row takes a quarter of the time.
_MANY_ENTRIES = 0.25


@borrows
def apply_levels(
    table: Floats,
    paths: Numbers,
    count: int,
    lists: RowLists,
    memory: Memory,
    index: int,
    now_s: float,
    work: Work,
) -> tuple[bool, float]:
    """Have the rows of a group send at what its levels allow.

    Returns whether any rate has changed, and how many bytes/s more the rows send at; nan if that
    has to be summed up over the rows.
    """
    levels, applied = memory.levels[index], memory.applied[index]
    begins, sizes, news = memory.begins[index], memory.sizes[index], memory.news[index]
    rates, rows, changed, total_more = work.rates[0], work.rows, False, 0.0
    moved, entries = _find_moved(levels, applied, sizes, work)
    if memory.anew[index] or entries > count * _MANY_ENTRIES:
        _rates_of_rows(paths, count, levels, work.rates)
        changed = _set_all(table, count, lists, now_s, rates)
        _copy(levels, applied)
        return changed, np.nan
    for number in range(moved):
        link = work.links[0, number]
        begin, size = begins[link], sizes[link]
        _rates_on_link(lists.entries, begin, size, link, levels, rates, work.rates[2])
        _rates_on_link(lists.entries, begin, size, link, applied, work.rates[1], work.rates[2])
        many = _keep_different(lists.entries[0, begin : begin + size], rates, work.rates[1], rows)
        is_new, total_more = _set_rates(table, rows[:many], rates, now_s, lists, total_more)
        changed |= is_new
    if news < count:
        _rates_of_rows(paths[:, news:], count - news, levels, work.rates)
        for number in range(count - news):
            rows[number] = news + number
        is_new, total_more = _set_rates(
            table, rows[: count - news], rates, now_s, lists, total_more
        )
        changed |= is_new
    _copy(levels, applied)
    return changed, total_more


@borrows
def first_of(table: Floats, count: int, firsts: Floats) -> float:
    """When the first row finishes, in seconds; inf if none does.  ``firsts`` are brought up."""
    first_s = np.inf
    for block in range(-(-count // BLOCK)):
        if np.isnan(firsts[block]):
            begin = block * BLOCK
            firsts[block] = first_finish(table[:, begin:], min(BLOCK, count - begin))
        first_s = min(first_s, firsts[block])
    return first_s


@borrows
def lower_to(ways: Numbers | Indices, levels: Floats, rates: Floats) -> None:
    """Lower rates to the level of another link on each one's path; see ``link_at``."""
    none = np.uint32(len(levels) - 1)
    for number in range(len(ways)):
        level = levels[min(np.uint32(ways[number]), none)]
        rates[number] = level if level < rates[number] else rates[number]


# Inside ----------------------------------------------------------------------------------------
@borrows
def _find_moved(levels: Floats, applied: Floats, sizes: Numbers, work: Work) -> tuple[int, int]:
    """Write the links of which a level is another than applied to ``work.links[0]``.

    Returns how many they are, and how many entries they have.
    """
    moved, links, count, entries = work.marked, work.links[0], 0, 0
    moved[:] = False
    for number in range(len(levels)):
        for link in range(len(sizes)):  # the compiler takes several links at a time
            moved[link] |= levels[number, link] != applied[number, link]
    for link in range(len(sizes)):
        has_moved = moved[link] & (sizes[link] > 0)
        links[count] = link  # no branch: most have not
        count, entries = count + has_moved, entries + has_moved * sizes[link]
    return count, entries


@borrows
def _copy(values: Floats, into: Floats) -> None:
    """Copy what each pass has for each link."""
    for number in range(len(values)):
        for link in range(values.shape[1]):
            into[number, link] = values[number, link]


@borrows
def _keep_different(entries: Indices, rates: Floats, others: Floats, rows: Indices) -> int:
    """Keep those of these rows, and of their ``rates``, with others than before.

    They are moved to the front of ``rows`` and ``rates``; returns how many they are.
    """
    count = 0
    for number in range(len(entries)):  # no branch: half of them would be guessed wrong
        differs_here = rates[number] != others[number]
        rows[count], rates[count] = entries[number], rates[number]
        count += differs_here
    return count


@borrows
def _set_rates(
    table: Floats,
    rows: Indices,
    rates: Floats,
    now_s: float,
    lists: RowLists,
    total_more: float,
) -> tuple[bool, float]:
    """Change the rates of these rows where they are others.

    Returns whether any is another, and how many bytes/s more that is, added to ``total_more``.
    """
    changed, known, firsts = False, lists.known, lists.firsts
    for number in range(len(rows)):
        row, rate = rows[number], rates[number]
        before, weight, block = table[RATE, row], known[row], row // BLOCK
        if weight == 0 or not differs(rate, before, STAYS):
            continue
        was_s = table[FINISH_S, row]
        change_rate(table, row, rate, now_s)
        finish_s = table[FINISH_S, row]
        if finish_s <= firsts[block]:
            firsts[block] = finish_s
        elif was_s == firsts[block]:
            firsts[block] = np.nan
        total_more += (rate - before) * weight
        changed |= rate != before
    return changed, total_more


@borrows
def _set_all(table: Floats, count: int, lists: RowLists, now_s: float, rates: Floats) -> bool:
    """Set the rates of all rows."""
    changed, known = False, lists.known
    for row in range(count):
        if known[row] > 0 and differs(rates[row], table[RATE, row], STAYS):
            change_rate(table, row, rates[row], now_s)
            changed = True
    lists.firsts[:] = np.nan
    return changed


@borrows
def _rates_of_rows(paths: Numbers, count: int, levels: Floats, work: Floats) -> None:
    """Write the rates of rows to ``work[0]``: what the passes come to."""
    for number in range(len(levels)):
        rates = work[min(number, 1), :count]
        rates[:] = np.inf
        for position in range(len(paths)):
            lower_to(paths[position, :count], levels[number], rates)
        if number > 0:
            _add(rates, work[0])


@borrows
def _add(more: Floats, into: Floats) -> None:
    """Add to the first of these rates."""
    for number in range(len(more)):
        into[number] += more[number]


@borrows
def _rates_on_link(
    entries: Indices,
    begin: int,
    size: int,
    link: int,
    levels: Floats,
    rates: Floats,
    one_pass: Floats,
) -> None:
    """Write the rates of the rows in a link's list to ``rates``: what the passes come to."""
    for number in range(len(levels)):
        allowed = one_pass[:size] if number > 0 else rates[:size]
        allowed[:] = levels[number, link]
        for position in range(1, len(entries)):
            lower_to(entries[position, begin : begin + size], levels[number], allowed)
        if number > 0:
            _add(allowed, rates)
