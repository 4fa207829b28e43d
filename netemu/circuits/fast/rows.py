"""The pairs of racks that go by circuit, and their flows, as rows of arrays.

A compiled function is given few arrays, as each costs 15 ns: the numbers of a pair are one row of
one array, whole numbers and times alike, and so are those of a flow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from railyard.netemu.model.arrays import Bools, Floats, Numbers

NONE = -1
#: Columns of a pair: the index of its coflow, its racks; the first and the last of its flows, as
#: they came, and how many these are; whether it has had a circuit; the bytes that it has left, as
#: its coflow's sums have them;
INDEX, SRC, DST, FIRST, LAST, MEMBERS, ATTACHED, COUNTED = range(8)
#: then what a ``Pipe`` has: the sum of its flows' weights, its service (bytes per unit of weight),
#: the sum of weight * need, the least need of a flow, the rate of the service, when the service was
#: as it is noted, when its circuit begins to carry, and that circuit's bytes/s.
WEIGHT, SERVED, TOTAL, NEEDS, RATE, SETTLED_S, FROM_S, BYTES_PER_S = range(8, 16)
PAIR_COLUMNS = 16

#: Columns of a flow: its size, what it had sent before it joined, its weight, the service of its
#: pair when it joined, and that when it will have sent all (inf: it has not joined); its place
#: among all flows; the next flow of its pair, and the pair.
SIZE, SENT_BEFORE, FLOW_WEIGHT, JOINED_AT, FLOW_NEEDS, SEQUENCE, NEXT, PAIR = range(8)
FLOW_COLUMNS = 8

#: What ``flags`` says: coflows must be put in order; circuits must be chosen; how many of ``free``
#: are rows of pairs that are free.
REORDER, REMATCH, FREE = range(3)


class PlaneRows(NamedTuple):
    """Pairs, flows, and what is known of each port and coflow.  A coflow is an index."""

    pairs: Floats  #: [pair, column]
    flows: Floats  #: [flow, column]
    serving: Numbers  #: [src]: the pair that has the circuit from that rack; NONE
    finish_s: Floats  #: [src]: when the first flow of that pair finishes
    due_s: Floats  #: [src]: the same; inf where the pair has changed since the last decision
    bytes_per_s: Floats  #: [side, rack]: of circuits at that port
    port_bytes: Floats  #: [coflow, side, rack]: what its pairs have left at that port, as counted
    port_pairs: Numbers  #: [coflow, side, rack]: how many pairs that are
    pair_count: Numbers  #: [coflow]: how many pairs it has
    moved: Bools  #: [coflow]: whether the above has changed since it got its place in the order
    fresh: Bools  #: [coflow]: whether pairs have begun to wait since the last choice
    free: Numbers  #: rows of pairs that are free, as many as ``flags`` says
    flags: Numbers  #: see ``REORDER``
    look_again_s: Floats  #: [1]: when to choose again even if nothing happens


def new_rows(racks: int, coflows: int) -> PlaneRows:
    """Rows without pairs, for so many coflows."""
    return PlaneRows(
        pairs=np.zeros((0, PAIR_COLUMNS)),
        flows=np.zeros((0, FLOW_COLUMNS)),
        serving=np.full(racks, NONE, dtype=np.int64),
        finish_s=np.full(racks, np.inf),
        due_s=np.full(racks, np.inf),
        bytes_per_s=np.zeros((2, racks)),
        port_bytes=np.zeros((coflows, 2, racks)),
        port_pairs=np.zeros((coflows, 2, racks), dtype=np.int64),
        pair_count=np.zeros(coflows, dtype=np.int64),
        moved=np.zeros(coflows, dtype=np.bool_),
        fresh=np.zeros(coflows, dtype=np.bool_),
        free=np.zeros(0, dtype=np.int64),
        flags=np.zeros(3, dtype=np.int64),
        look_again_s=np.full(1, np.inf),
    )
