"""The flow table's compiled loops; importing them loads numba.

Not here: anything that comes to other rates or ends than ``netemu.fabric.groups``.
Open ``tablerows`` first.
"""

from __future__ import annotations

from railyard.cluster.compiling import set_up_numba

set_up_numba()
