"""A comparison on the terminal: tables that fit into 80 columns, each column in one unit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from railyard.experiments.contenders import (
    Counted,
    OwnFigure,
    Row,
    counted,
    metrics_of,
    own_figures,
)
from railyard.experiments.statements import (
    Agreement,
    Statements,
    Verdict,
    agreements,
    first_failure,
    statements,
)
from railyard.runs.figures import Metric
from railyard.terminal import tables
from railyard.terminal.tables import Column

if TYPE_CHECKING:
    from rich.console import Console

#: So many contenders besides the first have their statements listed; more have marks only.
_LISTED_MAX = 5
#: Rows of counters; programs get all.
_COUNTERS_MAX = 40
_OF_BLOCKS = (
    "Its blocks: where the emulated run had them, which is not the same each time.  Seed's blocks: "
    "where the seed puts them, as in the table of simulated runs.  By chance: of more simulations "
    "with its blocks, and tasks a few ms shorter or longer."
)
_VALUE = Column("", tables.plain_numbers)
_AGREEMENT = (
    Column("emulated", tables.plain_numbers),
    Column("simulated, its blocks", tables.plain_numbers),
    Column("off by", tables.plain_numbers),
    Column("by chance", tables.plain_numbers, rank=1),
    Column("seed's blocks", tables.plain_numbers, rank=2),
)
_STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.UNTRUSTED: "yellow"}


def show(rows: Sequence[Row], title: str) -> None:
    """Print it, clock by clock; below each compared metric its change from the first one's."""
    console = tables.plain_console(highlight=False)
    console.print(tables.cell(title, "bold"))
    said, own = statements(rows), own_figures(rows)
    for clock, of in groupby(rows, key=lambda row: row.clock):
        same = list(of)
        console.print(f"\n{clock}, {_seeds(same[0].seeds)}")
        for _, metrics in groupby(metrics_of(rows), key=lambda metric: metric.compared):
            _show_figures(console, same, list(metrics), said)
        for row in same:
            if row.flaw:
                why = first_failure(row) or row.flaw
                words = f"! {row.label}: not to be trusted: {why}"
                console.print(tables.cell(words, "yellow"))
        if 1 < len(same) <= 1 + _LISTED_MAX:
            _show_statements(console, same, said)
    if said.every:
        marks = f"Below a number: its ratio to {rows[0].label}'s on the same clock; + better, "
        marks += "- worse, = the same, ? may be chance, ! not to be trusted."
        console.print()
        console.print(tables.cell(marks, "dim"))
        console.print(tables.cell(said.rule(), "dim"))
    if found := agreements(rows):
        _show_agreements(console, found)
    if own:
        _show_own(console, own)
    if counts := counted(rows):
        _show_counters(console, counts)


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}: means"


def _show_figures(
    console: Console, rows: Sequence[Row], metrics: Sequence[Metric], said: Statements
) -> None:
    lines: list[list[tables.Cell]] = []
    for row in rows:
        cells = [row.cells[metric.key] for metric in metrics]
        who = row.label + (" !" if row.flaw else "")
        lines.append([who, *(None if cell is None else cell.mean for cell in cells)])
        marks = said.of(row.contender)
        changes = [marks.get(metric.key) for metric in metrics]
        if any(changes):
            marked = (
                "" if one is None else tables.cell(f"{one.amount()} {one.verdict.mark}", "dim")
                for one in changes
            )
            lines.append(["", *marked])
    columns = [
        Column(metric.title, metric.kind.unit, rank=number) for number, metric in enumerate(metrics)
    ]
    tables.show_table(console, [Column(""), *columns], lines, elsewhere="--json")


def _show_statements(console: Console, rows: Sequence[Row], said: Statements) -> None:
    lines: list[list[tables.Cell]] = []
    for row in rows[1:]:
        who = row.label
        for one in said.of(row.contender).values():
            verdict = one.verdict.value
            if one.verdict is Verdict.ONE_SEED and one.by_chance:
                verdict = f"by chance {one.chance()}"
            style = _STYLES.get(one.verdict, "")
            lines.append(
                [who, one.metric.title, one.amount(), one.interval(), tables.cell(verdict, style)]
            )
            who = ""
    columns = (
        Column(f"against {rows[0].label}"),
        Column(""),
        Column("ratio", tables.plain_numbers),
        Column("interval", tables.plain_numbers, rank=1),
        Column(""),
    )
    console.print()
    tables.show_table(console, columns, lines, elsewhere="--json")


def _show_agreements(console: Console, found: Sequence[Agreement]) -> None:
    console.print("\nDo the two clocks agree?")
    lines: list[list[tables.Cell]] = []
    doubts: list[str] = []
    for who, same in groupby(found, key=lambda one: one.row.label):
        lines.append([tables.cell(who, "bold"), *[""] * len(_AGREEMENT)])
        for one in same:
            mark = " !" if one.doubt else ""
            lines.append([f"  {one.metric.title}{mark}", *one.cells()])
            if one.doubt:
                doubts.append(f"! {who}, {one.metric.title}: {one.doubt}")
    tables.show_table(console, (Column(""), *_AGREEMENT), lines, elsewhere="--json")
    for doubt in doubts:
        console.print(tables.cell(doubt, "yellow"))
    console.print(tables.cell(_OF_BLOCKS, "dim"))


def _show_own(console: Console, own: Sequence[OwnFigure]) -> None:
    console.print("\nThe schedulers' own figures")
    lines: list[list[tables.Cell]] = []
    for name, same in groupby(own, key=lambda one: one.row.name):
        who = name
        for one in same:
            lines.append([who, one.policy, one.words, " ".join(filter(None, one.cells()))])
            who = ""
    columns = (Column("scheduler"), Column("policy"), Column("figure"), _VALUE)
    tables.show_table(console, columns, lines)


def _show_counters(console: Console, counts: Sequence[Counted]) -> None:
    console.print("\nWhat the jobs counted, all of a run together")
    lines: list[list[tables.Cell]] = [
        [one.name, one.who, one.text()] for one in counts[:_COUNTERS_MAX]
    ]
    tables.show_table(console, (Column("counter"), Column("scheduler"), _VALUE), lines)
    if len(counts) > _COUNTERS_MAX:
        console.print(f"{len(counts) - _COUNTERS_MAX} more are in --json")
