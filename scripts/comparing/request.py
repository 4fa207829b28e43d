"""The request of ``railyard compare``."""

from __future__ import annotations

from dataclasses import dataclass

import click

from railyard.cluster.errors import UsageError
from railyard.cluster.files.lasting import Durability
from railyard.scripts.simulating.request import RunsRequest
from railyard.scripts.terminal.options import COUNT, durability_option, strict_option
from railyard.scripts.terminal.request import argument, option

#: Simulated seeds of each scheduler, if none are asked for: see docs/decisions/comparisons.md.
FEW_SEEDS = 5
CLOCKS = {"wall": ("wall",), "virtual": ("virtual",), "both": ("wall", "virtual")}


def _names(_: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise UsageError(f"{option.opts[0]} {text}: need names with commas between")
    return names


def _clocks(_: click.Context, __: click.Parameter, word: str) -> tuple[str, ...]:
    return CLOCKS[word]


@dataclass(frozen=True, kw_only=True)
class CompareRequest(RunsRequest):
    """Arguments and options of ``railyard compare``."""

    usual_seeds = {"wall": 1, "virtual": FEW_SEEDS}

    words: tuple[str, ...] = argument(nargs=-1, required=True, metavar="JOB...")
    schedulers: tuple[str, ...] = option(
        "--schedulers",
        default="fair,delay,capacity",
        metavar="NAME,...",
        callback=_names,
        help='The others are measured against the first.  "delay + sjf" is one with its flow '
        "scheduler.  Default: fair,delay,capacity.",
    )
    clocks: tuple[str, ...] = option(
        "--clock",
        type=click.Choice(list(CLOCKS)),
        default="both",
        callback=_clocks,
        help="Real processes, simulation, or both (the default), to see whether they agree.",
    )
    seeds: int | None = option(
        "--seeds",
        type=COUNT,
        metavar="N",
        help=f"Runs of each.  Default: 1 emulated, {FEW_SEEDS} simulated.",
    )
    strict: bool = strict_option()
    durability: Durability | None = durability_option()

    def __post_init__(self) -> None:
        idle = {
            "--exact": (self.exact, "virtual"),
            "--strict": (self.strict, "wall"),
            "--durability": (self.durability is not None, "wall"),
        }
        for name, (given, clock) in idle.items():
            if given and clock not in self.clocks:
                raise UsageError(f"{name}: changes nothing here: need --clock {clock} or both")
