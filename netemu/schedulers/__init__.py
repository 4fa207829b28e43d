"""Flow schedulers: who may use the links first.  A file each, as its paper has it.

Nothing here knows the time, opens a socket or moves a byte.  Open ``base.py`` first, then
``fifo.py``.
"""

from railyard.netemu.schedulers.registry import FLOW_SCHEDULERS, flow_scheduler, flow_schedulers

__all__ = ["FLOW_SCHEDULERS", "flow_scheduler", "flow_schedulers"]
