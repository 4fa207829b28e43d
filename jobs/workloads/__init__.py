"""Workloads: jobs over time by size and shape, without code or data; traces and generators.

Not here: real jobs (``jobs.samples``).
Open ``model`` first; ``catalog`` finds a workload by its name and options.

Each family of workloads has a file that says what its source leaves open and what was chosen here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from railyard.cluster.errors import UsageError, printable, unknown_name
from railyard.cluster.topologyfile import split_changes
from railyard.jobs.workloads.coflows import CoflowTrace, load_coflow_benchmark
from railyard.jobs.workloads.tracefiles import HOW_TO_GET

#: {kind of coflow trace: function that reads a file of it}
COFLOW_TRACES: dict[str, Callable[[Path], CoflowTrace]] = {
    "coflow-benchmark": load_coflow_benchmark,
}


def coflow_trace(text: str) -> CoflowTrace:
    """Read the trace named by text such as "coflow-benchmark:FILE".

    Raises ``UsageError`` for an unknown kind, a missing file name or a malformed file.
    """
    base, changes = split_changes(text)
    kind, colon, file = base.partition(":")
    if kind not in COFLOW_TRACES:
        raise unknown_name("workload", kind, COFLOW_TRACES)
    if not colon or not file:
        raise UsageError(f"workload {text}: need a file, as in {kind}:FILE; {HOW_TO_GET}")
    for key, value in changes:
        instead = f"--first {value}, or --scheduler" if key == "jobs" else "--scheduler"
        shown = printable(f"{key}={value}", 80)
        raise UsageError(f"{shown}: coflows alone have no options: need {instead}")
    return COFLOW_TRACES[kind](Path(file))
