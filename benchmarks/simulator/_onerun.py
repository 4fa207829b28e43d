"""One simulation, and what it cost; in a process of its own, so that its memory can be measured."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.cluster.inputfile import build
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.simulator.behaviour import Behaviour
from railyard.simulator.clock import few_collections
from railyard.simulator.simulation import Simulation
from railyard.terminal.options import as_number


def measure(*settings: str) -> dict[str, Any]:
    """One run in a process of its own; raises ``CalledProcessError`` if that fails."""
    print(f"  {' '.join(settings)} ...", file=sys.stderr)
    command = [sys.executable, "-m", "railyard.benchmarks.simulator", *settings]
    one_core = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, env=one_core, stdout=subprocess.PIPE, check=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def one_run(jobs: str, topology: str, scheduler: str, flows: str, *settings: str) -> dict[str, Any]:
    pairs = (setting.split("=") for setting in settings)
    behaviour = build({key: as_number(value) for key, value in pairs}, Behaviour, "--behaviour")
    config = ClusterConfig(
        topology=load_topology(topology), scheduler=scheduler, flow_scheduler=flows
    )
    made = workload(jobs, config.seed)
    with few_collections():
        done = Simulation(config, made, behaviour)
        begun_s = time.process_time()
        done.run()
        ended_s = time.process_time()
    summary = done.summary()
    return {
        "cpu_s": time.process_time(),
        "run_s": ended_s - begun_s,
        "makespan_s": summary["makespan_s"],
        "jct_s": summary["jct_s"]["mean"],
        "cct_s": summary["cct_s"]["mean"],
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "jobs": len(made.jobs),
        "tasks": made.tasks,
        "flows": done.network.opened,
        "load": os.getloadavg()[0],
    }
