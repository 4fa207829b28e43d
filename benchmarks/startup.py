"""How fast a cluster is up, and how much memory its daemons need.

The yardstick is what 19 Python processes cost that are not forked from a warmed parent: as many as
a cluster of 8 racks has daemons, each importing numpy, zmq and msgpack.  Both are measured in
turns, in this run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

import psutil

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.cluster.config import ClusterConfig
from railyard.cluster.topology import load_topology
from railyard.runs.clusters import own_cluster

#: The least that a cluster must be better by, and what is aimed at.
RATIO_BOUND = 1.0
UNSHARED_BYTES_BOUND = 150e6
DAEMONS = 19

_FRESH = "import numpy, zmq, msgpack, sys; sys.stdout.write('r'); sys.stdout.flush(); input()"


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` takes 2 turns rather than 5."""
    config = ClusterConfig(topology=load_topology("hybrid-8x4"))
    up_s: list[float] = []
    fresh_s: list[float] = []
    unshared_bytes: list[int] = []
    for _ in range(2 if quick else 5):
        fresh_s.append(_fresh_pythons_s())
        seconds, size_bytes = _cluster(config)
        up_s.append(seconds)
        unshared_bytes.append(size_bytes)
    value_s, reference_s = statistics.median(up_s), statistics.median(fresh_s)
    memory_mb = max(unshared_bytes) / 1e6
    bound_mb = UNSHARED_BYTES_BOUND / 1e6
    return [
        bench_row(
            f"cluster of 8 racks up, against {DAEMONS} fresh Pythons",
            value_s,
            "s",
            reference=reference_s,
            ratio_bound=RATIO_BOUND,
        ),
        bench_row(
            "unshared memory of its daemons, their helpers and their parent",
            memory_mb,
            "MB",
            reference=bound_mb,
            ratio_bound=1,
        ),
    ]


def _cluster(config: ClusterConfig) -> tuple[float, int]:
    """Seconds from nothing to all daemons registered, and all their processes' unshared memory."""
    begun_s = time.monotonic()
    with own_cluster(config) as cluster:
        cluster.wait_until_ready()
        seconds = time.monotonic() - begun_s
        pids = {row["role"]: row["pid"] for row in cluster.folder.processes()}
        supervisor = psutil.Process(pids["Supervisor"])
        daemons = supervisor.children()
        if len(daemons) != DAEMONS:
            raise RuntimeError(f"the cluster has {len(daemons)} daemons: need {DAEMONS}")
        family = [supervisor, *supervisor.children(recursive=True)]
        return seconds, sum(member.memory_full_info().uss for member in family)


def _fresh_pythons_s() -> float:
    """Seconds until as many fresh Pythons are ready."""
    begun_s = time.monotonic()
    pythons = [
        subprocess.Popen(
            [sys.executable, "-c", _FRESH],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # as the cluster's parent has it
        )
        for _ in range(DAEMONS)
    ]
    try:
        for python in pythons:
            assert python.stdout is not None
            if python.stdout.read(1) != b"r":
                raise RuntimeError("a fresh Python could not import numpy, zmq and msgpack")
        return time.monotonic() - begun_s
    finally:
        for python in pythons:
            python.kill()
            python.communicate()
