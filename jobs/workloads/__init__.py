"""Jobs over time, by size and shape, without code or data: traces and generators.

Not here: real jobs (``jobs.samples``, ``jobs.mixes``).
Open ``model`` first; ``catalog`` finds a workload by its name and options.

Each family of workloads is a file that says what its source leaves open and what was chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from railyard.cluster.errors import UsageError, unknown_name
from railyard.jobs.workloads.traces.coflows import CoflowTrace, load_coflow_benchmark

#: kind of workload -> how a file of it is read
COFLOW_TRACES: dict[str, Callable[[Path], CoflowTrace]] = {
    "coflow-benchmark": load_coflow_benchmark,
}


def coflow_trace(text: str) -> CoflowTrace:
    """The trace that "coflow-benchmark:FILE" names.

    Raises ``UsageError`` for an unknown kind, a missing file name and a file that is not right.
    """
    kind, colon, file = text.partition(":")
    if kind not in COFLOW_TRACES:
        raise unknown_name("workload", kind, COFLOW_TRACES)
    if not colon or not file:
        raise UsageError(f"workload {text}: need a file, as in {kind}:FILE")
    return COFLOW_TRACES[kind](Path(file))
