"""Fetches that are rows, in compiled loops; importing them loads numba.

Not here: anything that starts other fetches than ``resourcemanager.core.shuffling.shuffle``.
Open ``tables`` first.
"""

from __future__ import annotations

from railyard.cluster.compiling import set_up_numba

set_up_numba()
