"""The request of ``railyard reproduce``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from railyard.scripts.simulating.workers import Workers, on_option
from railyard.scripts.terminal.options import (
    TextPairs,
    new_folder,
    seed_range,
    text_pairs,
    writable_file,
)
from railyard.scripts.terminal.request import argument, option


@dataclass(frozen=True, kw_only=True)
class ReproduceRequest:
    """Arguments and options of ``railyard reproduce``."""

    paper: str = argument(required=True, metavar="PAPER")
    figures: tuple[str, ...] = argument(nargs=-1, metavar="[FIGURE]...")
    seeds: int | range | None = option(
        "--seeds",
        metavar="N|A-B",
        callback=seed_range,
        help="Runs of each setup: N of them, or those with seeds A to B.  Seeds before the usual "
        "ones were used to choose what a paper leaves open.",
    )
    quick: bool = option(
        "--quick", is_flag=True, help="A smaller version of each figure, for a first look."
    )
    cases: tuple[str, ...] = option(
        "--case",
        multiple=True,
        metavar="CASE",
        help="Only lines of this case, which tables have at the left, such as W1; repeatable.",
    )
    changed: TextPairs = option(
        "--set",
        metavar="KEY=VALUE",
        callback=text_pairs,
        multiple=True,
        help="Another value for a setting of the schedulers, such as corral.imbalance=0; "
        "repeatable.",
    )
    json_file: Path | None = option(
        "--json", callback=writable_file, help="Write all numbers to this file."
    )
    results: Path | None = option(
        "--out",
        metavar="DIR",
        callback=new_folder,
        help="Write numbers and summaries of all runs to a new folder.",
    )
    on: Workers | None = on_option()
