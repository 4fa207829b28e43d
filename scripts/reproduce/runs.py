"""Running what figures need: each setup with each seed, once, spread over cores."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from railyard.cluster.errors import RailyardError
from railyard.cluster.topology import load_topology
from railyard.cluster.units import format_count
from railyard.jobs.workloads.model import Workload
from railyard.scripts.clusters.config import cluster_config, own_options
from railyard.scripts.reproduce.figures import Setup
from railyard.scripts.reproduce.measures import Summary
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.simulating.sweep import sweep
from railyard.scripts.simulating.virtual import VirtualRun, require_faults, run_virtually
from railyard.scripts.simulating.workers import Workers
from railyard.scripts.simulating.workloads import simulators_workload
from railyard.scripts.terminal.options import TextPairs, as_number
from railyard.simulator.nodes.behaviour import Behaviour

#: The summaries of each setup, by seed.
Summaries = dict[Setup, list[Summary]]


#: Compiled loops set the rates from so few open flows on, as a process that makes many runs loads
#: them once.  Less than half of the CPU time of W1's batch under ``capacity``, and the same end.
_FAST_FROM_FLOWS = 100


class JobsFailed(RailyardError):
    """Jobs of an experiment failed, so its numbers are of fewer jobs than they should be."""


def carry_out(
    setups: Iterable[Setup], seeds: Sequence[int], on: Workers | None = None
) -> Summaries:
    """Run every setup with every seed; see ``carry_out_each``."""
    return carry_out_each(dict.fromkeys(setups, seeds), on)


def carry_out_each(seeds: Mapping[Setup, Sequence[int]], on: Workers | None = None) -> Summaries:
    """Run every setup with its seeds.

    Raises ``UsageError`` for a setup that makes no sense, before the first run; ``JobsFailed``.
    """
    made: dict[tuple[str, int], Workload] = {}
    pairs = [(setup, seed) for setup, those in seeds.items() for seed in those]
    runs = [_run(setup, seed, made) for setup, seed in pairs]
    found: Summaries = {setup: [] for setup in seeds}
    summaries = sweep(run_virtually, runs, on=on)
    for (setup, seed), summary in zip(pairs, summaries, strict=True):
        failed = [job["name"] for job in summary["jobs"] if not job["ok"]]
        if failed:
            count = format_count(len(failed), "job")
            raise JobsFailed(f"{count} failed, {failed[0]} for one: {command(setup, seed)}")
        found[setup].append(summary)
    return found


def command(setup: Setup, seed: int) -> str:
    """The command that runs this setup alone."""
    words = ["railyard", "simulate", "--workload", setup.workload, "--topology", setup.topology]
    words += ["--scheduler", setup.pair.scheduler, "--flow-scheduler", setup.pair.flow_scheduler]
    pairs = (("--network", setup.network), ("--set", _own_options(setup)))
    usual = Behaviour()
    changed = tuple(
        (name, f"{getattr(setup.behaviour, name):g}")
        for name in Behaviour.__struct_fields__
        if getattr(setup.behaviour, name) != getattr(usual, name)
    )
    for option, settings in (*pairs, ("--behaviour", changed)):
        for key, value in settings:
            words += [option, f"{key}={value}"]
    if setup.faults is not None:
        words += ["--faults", setup.faults]
    return shlex.join([*words, "--exact", "--seed", str(seed)])


def save(found: Summaries, folder: Path) -> None:
    """Write each run's summary, with the command that repeats it, to a new folder."""
    folder.mkdir()
    for number, (setup, summaries) in enumerate(found.items()):
        for summary in summaries:
            seed = summary["seed"]
            name = f"{number:03}-{'-'.join(setup.pair)}-{seed}.json"
            whole = summary | {"workload": setup.workload, "command": command(setup, seed)}
            write_json(whole, folder / name)


def _own_options(setup: Setup) -> TextPairs:
    """The settings of its own scheduler, without those of the others."""
    return own_options(setup.scheduler, setup.scheduler_options)


def _run(setup: Setup, seed: int, made: dict[tuple[str, int], Workload]) -> VirtualRun:
    config = cluster_config(
        load_topology(setup.topology, setup.network),
        pair=setup.pair,
        options=tuple((key, as_number(text)) for key, text in _own_options(setup)),
        seed=seed,
    )
    key = setup.workload, seed
    if key not in made:
        made[key] = simulators_workload(setup.workload, config.topology, seed)
    run = VirtualRun(
        config=config,
        workload=made[key],
        behaviour=setup.behaviour,
        faults=setup.faults,
        compiled_from=_FAST_FROM_FLOWS,
    )
    require_faults(run)
    return run
