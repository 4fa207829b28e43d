"""The choice of circuits with many open flows, one circuit a port at a time, by compiled loops.

Not here: anything that decides otherwise than ``netemu.circuits.policies.sunflow``.
Open ``matching`` first.
"""

from __future__ import annotations

from railyard.netemu.compiling import set_up_numba

set_up_numba()
