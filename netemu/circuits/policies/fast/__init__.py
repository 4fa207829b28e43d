"""Sunflow's choice of circuits by compiled loops, for ports with one circuit at a time.

Not here: anything that decides otherwise than ``netemu.circuits.policies.sunflow``.
Open ``matching`` first.
"""

from __future__ import annotations

from railyard.cluster.compiling import set_up_numba

set_up_numba()
