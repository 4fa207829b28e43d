"""Circuits are set up, begin to carry, are used by pairs, and are taken down; see ``arrays``.

It decides nothing.  A circuit that no pair uses any more stays up until one of its ports is needed
for another, so that it carries at once for the next coflow between the same racks.  Only the two
ports of a circuit wait for it (not-all-stop).
"""

from __future__ import annotations

from math import inf

from railyard.netemu.circuits.arrays import (
    CHANGED,
    DELTA,
    DOWN,
    FACTS,
    IN,
    MADE,
    OUT,
    SET_UP,
    UP,
    Circuits,
)
from railyard.netemu.circuits.sunflow import free_port, put
from railyard.netemu.kernel.state import NONE, State


def circuit_bytes_per_s(slot: int, c: Circuits) -> float:
    """Bytes/s of a circuit once it is ready."""
    src, dst = slot // c.wavelengths, c.of.peer[slot]
    return min(c.ports.bytes_per_s[src], c.ports.bytes_per_s[c.racks + dst])


def spare(pair: int, c: Circuits) -> int:
    """The slot of the unused circuit for a pair that is ready first; ``NONE``: there is none."""
    of, best = c.of, NONE
    src, dst = c.pairs.port[2 * pair], c.pairs.port[2 * pair + 1]
    for slot in range(src * c.wavelengths, (src + 1) * c.wavelengths):
        if of.peer[slot] == dst and of.user[slot] == NONE:
            later_s = -1.0 if best == NONE else of.ready_s[slot] - of.ready_s[best]
            if later_s < 0.0 or (later_s == 0.0 and of.number[slot] < of.number[best]):
                best = slot
    return best


def connect(pair: int, now_s: float, s: State, c: Circuits) -> None:
    """Give a pair a spare circuit, or a new one; the oldest unused ones make room for it."""
    of, delta_s = c.of, c.lists.times[DELTA]
    src, dst = c.pairs.port[2 * pair], c.pairs.port[2 * pair + 1]
    slot = spare(pair, c)
    if slot == NONE:
        slot = free_place(OUT, src, now_s, c)
        place = free_place(IN, dst, now_s, c)
        c.lists.counts[MADE] += 1
        of.into[place], of.peer[slot], of.number[slot] = slot, dst, c.lists.counts[MADE]
        of.ready_s[slot] = now_s + delta_s
        is_dark = of.ready_s[slot] > now_s
        of.dark_s[slot] = of.ready_s[slot] if is_dark else inf
        s.work.capacity[c.first_link + slot] = 0.0 if is_dark else circuit_bytes_per_s(slot, c)
    of.user[slot], c.pairs.slot[pair] = pair, slot
    note_change(now_s, SET_UP if of.ready_s[slot] > now_s else UP, slot, c)


def free_place(side: int, rack: int, now_s: float, c: Circuits) -> int:
    """A place (out: a slot) without a circuit at a port; the oldest unused one makes room."""
    of, oldest, oldest_at = c.of, NONE, NONE
    for at in range(rack * c.wavelengths, (rack + 1) * c.wavelengths):
        slot = of.into[at]
        if side == OUT:
            slot = at if of.peer[at] != NONE else NONE
        if slot == NONE:
            return at
        if of.user[slot] == NONE and (oldest == NONE or of.number[slot] < of.number[oldest]):
            oldest, oldest_at = slot, at
    take_down(oldest, now_s, c)
    return oldest_at


def take_down(slot: int, now_s: float, c: Circuits) -> None:
    """Take down a circuit, which nobody uses; its slot keeps its capacity, and has no rows."""
    of, dst = c.of, c.of.peer[slot]
    note_change(now_s, DOWN, slot, c)
    for place in range(dst * c.wavelengths, (dst + 1) * c.wavelengths):
        if of.into[place] == slot:
            of.into[place] = NONE
    of.peer[slot], of.dark_s[slot] = NONE, inf


def let_go(pair: int, now_s: float, c: Circuits) -> None:
    """Take a pair's circuit, which stays; its flows are in no row."""
    slot = c.pairs.slot[pair]
    c.of.user[slot], c.pairs.slot[pair] = NONE, NONE
    note_change(now_s, SET_UP if c.of.ready_s[slot] > now_s else UP, slot, c)


def begin_to_carry(now_s: float, s: State, c: Circuits) -> None:
    """Let circuits carry that are ready."""
    for slot in range(c.slots):
        if c.of.dark_s[slot] <= now_s:
            note_change(c.of.dark_s[slot], UP, slot, c)
            c.of.dark_s[slot] = inf
            s.work.capacity[c.first_link + slot] = circuit_bytes_per_s(slot, c)


def next_ready_s(c: Circuits) -> float:
    """When the first dark circuit will carry."""
    first_s = inf
    for slot in range(c.slots):
        first_s = min(first_s, c.of.dark_s[slot])
    return first_s


def note_change(at_s: float, what: int, slot: int, c: Circuits) -> None:
    """Log what happens to a circuit."""
    user, at = c.of.user[slot], c.lists.counts[CHANGED]
    c.lists.change_s[at] = at_s
    change, first = c.lists.change, FACTS * at
    change[first], change[first + 1] = what, slot // c.wavelengths
    change[first + 2], change[first + 4] = c.of.peer[slot], c.of.number[slot]
    change[first + 3] = NONE if user == NONE else c.pairs.coflow[user]
    c.lists.counts[CHANGED] += 1


def set_port(port: int, bytes_per_s: float, now_s: float, s: State, c: Circuits) -> None:
    """Give the circuits of a port another rate; 0 takes them down: no pair uses them."""
    of, first = c.of, port // c.racks * c.words
    c.ports.bytes_per_s[port] = bytes_per_s
    put(c.sets.works, first, port % c.racks, bytes_per_s > 0.0)
    free_port(port, c)
    for slot in range(c.slots):
        at = slot // c.wavelengths if port < c.racks else of.peer[slot]
        if of.peer[slot] != NONE and at == port % c.racks:
            if bytes_per_s == 0.0:
                take_down(slot, now_s, c)
            elif of.dark_s[slot] == inf:
                s.work.capacity[c.first_link + slot] = circuit_bytes_per_s(slot, c)
