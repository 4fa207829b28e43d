"""Running what figures need: each setup with each seed, once, spread over cores."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from railyard.cluster.errors import RailyardError, UsageError
from railyard.cluster.units import format_count
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.model import Workload
from railyard.resourcemanager.schedulers import recipe_named
from railyard.scripts.comparing.comparison import options_of
from railyard.scripts.reproduce.figures import Settings, Setup
from railyard.scripts.reproduce.measures import Summary
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.simulating.sweep import parse_on, sweep
from railyard.scripts.simulating.virtual import VirtualRun, run_virtually
from railyard.scripts.terminal.options import ClusterChoice
from railyard.simulator.nodes.behaviour import Behaviour

#: The summaries of each setup, by seed.
Summaries = dict[Setup, list[Summary]]


class JobsFailed(RailyardError):
    """Jobs of an experiment failed, so its numbers are of fewer jobs than they should be."""


def carry_out(setups: Iterable[Setup], seeds: Sequence[int], on: str | None = None) -> Summaries:
    """Run every setup with every seed.

    Raises ``UsageError`` for a setup that makes no sense, before the first run; ``JobsFailed``.
    """
    parse_on(on)
    once = list(dict.fromkeys(setups))
    made: dict[tuple[str, int], Workload] = {}
    pairs = [(setup, seed) for setup in once for seed in seeds]
    runs = [_run(setup, seed, made) for setup, seed in pairs]
    found: Summaries = {setup: [] for setup in once}
    summaries = sweep(run_virtually, runs, on=on)
    for (setup, seed), summary in zip(pairs, summaries, strict=True):
        failed = [job["name"] for job in summary["jobs"] if not job["ok"]]
        if failed:
            count = format_count(len(failed), "job")
            raise JobsFailed(f"{count} failed, {failed[0]} for one: {command(setup, seed)}")
        found[setup].append(summary)
    return found


def command(setup: Setup, seed: int) -> str:
    """What to type to run it alone."""
    words = ["railyard", "simulate", "--workload", setup.workload, "--topology", setup.topology]
    words += ["--scheduler", setup.scheduler, "--flow-scheduler", setup.flow_scheduler]
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
    return shlex.join([*words, "--seed", str(seed)])


def save(found: Summaries, folder: Path) -> None:
    """Write each run's summary, with the command that repeats it, to a new folder."""
    folder.mkdir()
    for number, (setup, summaries) in enumerate(found.items()):
        for summary in summaries:
            seed = summary["seed"]
            name = f"{number:03}-{setup.scheduler}-{setup.flow_scheduler}-{seed}.json"
            whole = summary | {"workload": setup.workload, "command": command(setup, seed)}
            write_json(whole, folder / name)


def _own_options(setup: Setup) -> Settings:
    """Its settings without those of the schedulers that it is compared with."""
    return options_of(recipe_named(setup.scheduler), setup.scheduler_options)


def _run(setup: Setup, seed: int, made: dict[tuple[str, int], Workload]) -> VirtualRun:
    choice = ClusterChoice(
        topology=setup.topology,
        network=setup.network,
        scheduler=setup.scheduler,
        flow_scheduler=setup.flow_scheduler,
        scheduler_options=_own_options(setup),
        seed=seed,
        transport=None,
    )
    key = setup.workload, seed
    if key not in made:
        made[key] = workload(*key)
    config, racks = choice.config(), made[key].sites
    if racks > config.topology.racks.count:
        right = f"at least the {racks} sites of {made[key].name}"
        raise UsageError(f"topology {config.topology.name}: need {right}")
    return VirtualRun(config=config, workload=made[key], behaviour=setup.behaviour)
