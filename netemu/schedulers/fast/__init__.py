"""The flow schedulers with many open flows: the same rates as theirs, worked out by compiled loops.

``FlowScheduler.compiled`` leads here; only a simulation with many open flows does.
"""

from __future__ import annotations

from railyard.netemu.compiling import set_up_numba

set_up_numba()
