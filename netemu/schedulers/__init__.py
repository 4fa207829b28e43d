"""Flow schedulers: at which rate each open flow sends.

``reference/`` follows the papers, ``fast/`` decides the same by compiled loops, ``registry.py``
pairs them.  Nothing here knows the time, opens a socket or moves a byte.  Open ``base.py`` first.
"""

from railyard.netemu.schedulers.registry import (
    FLOW_SCHEDULERS,
    fast_version,
    flow_scheduler,
    flow_schedulers,
)

__all__ = ["FLOW_SCHEDULERS", "fast_version", "flow_scheduler", "flow_schedulers"]
