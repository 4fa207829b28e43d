"""The arrays of a stage's fetches, and the loop that ends and begins them.

The loop is plain Python, which numba can compile: who has millions of fetches has it compiled
(``compiled``), and nobody else loads numba.  Both do the same.

Never here: which fetches may begin; see ``shuffle.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Counts = NDArray[np.int32]
#: What ``go_on`` returns if nothing begins.
NONE: Numbers = np.zeros((5, 0), np.int64)
#: The number of a fetch is that of its stage, of its place there and of its reader: the last two
#: have so many bits each.
PLACE_BITS, READER_BITS = 18, 22
STAGE_SHIFT = PLACE_BITS + READER_BITS
PLACES, READERS = (1 << PLACE_BITS) - 1, (1 << READER_BITS) - 1
#: The rows of what ``go_on`` returns.
FETCH, SRC, DST, SIZE, AFTER = range(5)


class Arrays(NamedTuple):
    """Of a reading stage, by place (a node with outputs) and by reader (an attempt).

    A fetch is under way where more outputs have been asked for than have arrived.
    """

    node: Numbers  #: [place] its number
    ready: Numbers  #: [place] outputs that are ready
    ready_bytes: Numbers  #: [place, task] what these have for each reading task
    reader_node: Numbers  #: [reader] the number of its node
    task: Numbers  #: [reader]
    sequence: Numbers  #: [reader] fetches that it has begun
    missing: Numbers  #: [reader] outputs that have not arrived
    asked: Counts  #: [place, reader] outputs that have arrived or are under way
    arrived: Counts  #: [place, reader]
    arrived_bytes: Numbers  #: [place, reader]
    size_bytes: Numbers  #: [place, reader] of the last fetch
    started_s: NDArray[np.float64]  #: [place, reader] likewise
    name: Counts  #: [place, reader] likewise: how many fetches its reader began before
    order: Numbers  #: [place, reader] likewise: how many fetches began before, of all
    #: of fetches that have ended since they were last counted: bytes in all, within nodes, and
    #: within racks
    moved_bytes: Numbers
    sent_bytes: Numbers  #: [rack] and between racks
    received_bytes: Numbers  #: [rack]
    ended_s: NDArray[np.float64]  #: when the last one between two nodes ended, if any: one number


#: The shapes of the arrays that are not of one length: by places, readers, tasks.
_SHAPES = {
    **dict.fromkeys(("node", "ready"), "p"),
    **dict.fromkeys(("reader_node", "task", "sequence", "missing"), "r"),
    **dict.fromkeys(("asked", "arrived", "arrived_bytes", "size_bytes"), "pr"),
    **dict.fromkeys(("started_s", "name", "order"), "pr"),
    "ready_bytes": "pt",
}
_TYPES = dict.fromkeys(("asked", "arrived", "name"), np.int32) | {"started_s": np.float64}


def new_arrays(tasks: int, racks: int) -> Arrays:
    """The arrays of a stage of so many tasks, with room for as many readers and a few places."""
    many = {"p": 4, "r": tasks, "t": tasks}
    shaped: dict[str, Any] = {
        name: np.zeros([many[by] for by in shape], _TYPES.get(name, np.int64))
        for name, shape in _SHAPES.items()
    }
    moved, sent, received = (np.zeros(length, np.int64) for length in (3, racks, racks))
    ended_s = np.array([np.nan])
    return Arrays(
        **shaped, moved_bytes=moved, sent_bytes=sent, received_bytes=received, ended_s=ended_s
    )


def with_room(arrays: Arrays, *, places: int = 0, readers: int = 0) -> Arrays:
    """The arrays with room for so many more."""
    more, larger = {"p": places, "r": readers, "t": 0}, dict[str, Any]()
    for name, shape in _SHAPES.items():
        before = getattr(arrays, name)
        lengths = [length + more[by] for length, by in zip(before.shape, shape, strict=True)]
        larger[name] = np.zeros(lengths, before.dtype)  # np.pad takes ten times as long
        larger[name][tuple(map(slice, before.shape))] = before
    return arrays._replace(**larger)


def go_on(
    arrays: Arrays, rack_of: Numbers, fetches: Numbers, ended: bool, now_s: float, begun: int
) -> Numbers:
    """Begin fetches of all that is new where these may fetch, in this order.

    If they have ``ended``, what they were to bring has arrived; those that were not under way do
    not matter.  ``begun``: how many fetches began before.  Returns those that begin: [row, fetch].
    """
    found, count = np.empty((5, len(fetches)), np.int64), 0
    all_asked, all_arrived, all_sizes = arrays.asked, arrays.arrived, arrays.size_bytes
    for number in range(len(fetches)):
        fetch = int(fetches[number])
        reader, place = fetch & READERS, fetch >> READER_BITS & PLACES
        asked, arrived = int(all_asked[place, reader]), int(all_arrived[place, reader])
        if ended != (asked > arrived):
            continue
        src, dst = int(arrays.node[place]), int(arrays.reader_node[reader])
        arrived_bytes = int(arrays.arrived_bytes[place, reader])
        if ended:
            size_bytes = int(all_sizes[place, reader])
            arrived_bytes += size_bytes
            arrays.missing[reader] -= asked - arrived
            all_arrived[place, reader] = asked
            arrays.arrived_bytes[place, reader] = arrived_bytes
            arrays.moved_bytes[0] += size_bytes
            if src == dst:
                arrays.moved_bytes[1] += size_bytes
            else:
                arrays.ended_s[0] = now_s
                source, target = int(rack_of[src]), int(rack_of[dst])
                if source == target:
                    arrays.moved_bytes[2] += size_bytes
                else:
                    arrays.sent_bytes[source] += size_bytes
                    arrays.received_bytes[target] += size_bytes
        ready = int(arrays.ready[place])
        if asked == ready:
            continue
        size_bytes = int(arrays.ready_bytes[place, arrays.task[reader]]) - arrived_bytes
        sequence = int(arrays.sequence[reader])
        arrays.sequence[reader] = sequence + 1
        all_asked[place, reader] = ready
        all_sizes[place, reader] = size_bytes
        arrays.started_s[place, reader] = now_s
        arrays.order[place, reader] = begun + count
        arrays.name[place, reader] = sequence
        found[FETCH, count], found[SRC, count], found[DST, count] = fetch, src, dst
        found[SIZE, count], found[AFTER, count] = size_bytes, number
        count += 1
    return found[:, :count]


@cache
def compiled() -> Callable[..., Any]:
    """``go_on``, compiled: loads numba, which takes a second.

    Once in a process: numba takes the constants of what is loaded twice for those of the first.
    """
    from railyard.cluster.compiling import compile_once, set_up_numba

    set_up_numba("shuffle", Path(__file__))
    from numba import njit

    loop: Callable[..., Any] = compile_once(njit(cache=True)(go_on))
    return loop
