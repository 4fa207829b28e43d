"""The circuit plane in compiled loops: Sunflow's circuits, where nothing else limits flows.

Not here: anything that comes to other circuits, rates or ends than ``netemu.circuits.plane``.
Open ``plane`` first, then ``events``.
"""

from __future__ import annotations

from railyard.cluster.compiling import set_up_numba

set_up_numba()
