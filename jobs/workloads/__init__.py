"""What a cluster is given to do over hours: traces of users' files, and generators.

A workload is asked for by name, with options: see ``catalog.py``.  ``model.py`` says what it is
made of; each family of workloads is a file, with its source and with what that leaves open.
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
