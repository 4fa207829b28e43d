"""Flow schedulers for many open flows: the rates of ``reference/``, computed by compiled loops.

``registry.py`` says which and from how many flows on.  Importing this loads numba: 0.5 s and 70 MB.
Nothing in ``reference/`` may import it.  Open ``fifo.py`` first.
"""

from __future__ import annotations

from railyard.netemu.compiling import set_up_numba

set_up_numba()
