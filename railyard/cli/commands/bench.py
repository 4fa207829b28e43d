"""``railyard bench``: run benchmarks, each a module of ``benchmarks/`` with a function ``run``.

One that is a folder has parts, which can be run alone: ``railyard bench attacks.kills``.

A row (``benchmarks._common.rows``) says what was measured, what it is compared with in the same
run, and the bound to keep.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import click

import railyard
from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.units import format_number
from railyard.runs.folder import write_json
from railyard.terminal.options import Command, writable_file

#: The benchmark that takes a number of cases.
_WITH_CASES = "differential"


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--quick", is_flag=True, help="Fewer repetitions, for a first look.")
@click.option(
    "--cases",
    type=click.IntRange(min=1),
    help="How many random cases, of a benchmark that goes through such (differential).",
)
@click.option("--json", "json_file", callback=writable_file, help="Write the rows to this file.")
def bench(names: tuple[str, ...], quick: bool, cases: int | None, json_file: Path | None) -> int:
    """Run the benchmarks, or those that are named; exit status 1 if one breaks its bound."""
    known = benchmark_names()
    if not known:
        raise UsageError("bench: an installed package has no benchmarks: they run in a checkout")
    parts = [part for name in known for part in parts_of(name)]
    for name in names:
        if name not in (*known, *parts):
            raise unknown_name("benchmark", name, (*known, *parts))
    if cases is not None and names != (_WITH_CASES,):
        raise UsageError(f"--cases {cases}: only with the benchmark {_WITH_CASES}, alone")
    extra = {} if cases is None else {"cases": cases}
    rows: list[dict[str, Any]] = []
    for name in names or known:
        click.echo(f"{name} ...", err=True)
        module = importlib.import_module(f"railyard.benchmarks.{name}")
        new = module.run(quick=quick, **extra)
        show(name, new)
        rows += new
        if json_file is not None:
            write_json(rows, json_file)
    return 1 if any(row["ok"] is False for row in rows) else 0


def benchmark_names() -> list[str]:
    """Every module in ``benchmarks/`` that can be named; none in an installed package."""
    folder = Path(railyard.__file__).parent / "benchmarks"
    found = pkgutil.iter_modules([str(folder)])
    return sorted(module.name for module in found if not module.name.startswith("_"))


def parts_of(name: str) -> list[str]:
    """What can be run alone of a benchmark that is a folder: "attacks.kills" of "attacks"."""
    benchmark = importlib.import_module(f"railyard.benchmarks.{name}")
    found = pkgutil.iter_modules(getattr(benchmark, "__path__", ()))
    return sorted(f"{name}.{module.name}" for module in found if not module.name.startswith("_"))


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows as a table."""
    from railyard.terminal.tables import Column, cell, plain_console, plain_numbers, show_table

    columns = [
        Column("measured"),
        Column("value", plain_numbers),
        Column("reference", plain_numbers, rank=1),
        Column("unit"),
        Column("ratio", plain_numbers),
        Column("bound", plain_numbers),
        Column("verdict"),
        Column("note", rank=2),
    ]
    verdict = {True: cell("ok", "green"), False: cell("BROKEN", "red"), None: cell("")}
    table = [
        [
            row["name"],
            *(_figure(row[key]) for key in ("value", "reference")),
            row["unit"],
            *(_figure(row[key]) for key in ("ratio", "bound")),
            verdict[row["ok"]],
            row.get("note", ""),
        ]
        for row in rows
    ]
    show_table(plain_console(), columns, table, title=title, elsewhere="--json")


def _figure(value: Any) -> str:
    if value is None:
        return ""
    return format_number(value) if isinstance(value, float) else str(value)
