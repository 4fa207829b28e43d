"""The compiled loops of ``exact``; importing them loads numba.

Not here: what the numbers mean to a job.  Open ``search`` first.
"""

from __future__ import annotations

from railyard.cluster.compiling import set_up_numba

set_up_numba()
