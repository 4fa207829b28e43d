"""The decisions of ``reference/``, computed by compiled loops.

``registry.py`` pairs the two, and says from how many open flows on these are used.  Here is no
rule that ``reference/`` has not.  Importing this loads numba: 0.5 s and 70 MB.
Nothing in ``reference/`` may import it.  Open ``fifo.py`` first.
"""

from __future__ import annotations

from railyard.cluster.compiling import set_up_numba

set_up_numba()
