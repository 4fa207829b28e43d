"""How much private memory a process may have.

What counts is what Linux counts for RLIMIT_DATA: private, writable mappings, those included that
a fork inherits; neither mapped files nor code.
"""

from __future__ import annotations

import resource

from railyard.cluster.units import format_size


def in_words(allowed_bytes: int) -> str:
    """The limit that the topology sets, in words, for errors."""
    return f"compute.memory allows {format_size(allowed_bytes)} an attempt"


def limit_memory(size_bytes: int) -> None:
    """Let allocations fail that would take this process above ``size_bytes``."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        size_bytes = min(size_bytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (size_bytes, most))


def lift_limit() -> None:
    """Undo ``limit_memory``, so that there is room to report that it was reached."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def data_bytes() -> int:
    """Bytes that count of this process now."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmData")
