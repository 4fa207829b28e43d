"""A comparison on the terminal: tables that fit into 80 columns, each column in one unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from railyard.scripts.comparing.agreement import Agreement, agreements
from railyard.scripts.comparing.counters import Counted, counted
from railyard.scripts.comparing.metrics import Metric
from railyard.scripts.comparing.rows import (
    CLOCK_WORDS,
    Contender,
    OwnFigure,
    Row,
    label_rows,
    own_figures,
    shown_metrics,
    unit_of,
)
from railyard.scripts.comparing.statements import Statements, Verdict, flaw, statements
from railyard.scripts.terminal import tables

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: So many contenders besides the first have their statements listed; more have marks only.
_LISTED_MAX = 5
#: Rows of counters; programs get all.
_COUNTERS_MAX = 40
_OF_BLOCKS = (
    "Its blocks: where the emulated run had them, which is not the same each time.  Seed's blocks: "
    "where the seed puts them, as in the table of simulated runs.  By chance: of more simulations "
    "with its blocks, and tasks a few ms shorter or longer."
)
_STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.UNTRUSTED: "yellow"}


def show(rows: Sequence[Row], title: str) -> None:
    """Print it, clock by clock; below each compared metric its change from the first one's."""
    console = tables.plain_console(highlight=False)
    console.print(tables.cell(title, "bold"))
    labels, said = label_rows(rows), statements(rows)
    own = own_figures(rows)
    for clock, of in groupby(rows, key=lambda row: row.contender.clock):
        same = list(of)
        console.print(f"\n{CLOCK_WORDS[clock]}, {_seeds(same[0].seeds)}")
        for metrics in _parts(shown_metrics(rows)):
            console.print(_figures(same, metrics, labels, said))
        _show_flaws(console, same, labels)
        if 1 < len(same) <= 1 + _LISTED_MAX:
            _show_statements(console, same, labels, said)
    if said.every:
        _show_rule(console, rows, labels, said)
    if found := agreements(rows, labels):
        _show_agreements(console, found)
    if own:
        _show_own(console, own, _labels_of_own(rows, labels))
    if counts := counted(rows):
        _show_counters(console, counts, labels)


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}: means"


def _parts(metrics: Sequence[Metric]) -> Iterator[list[Metric]]:
    """The compared metrics, then the others, in tables of their own."""
    for _, same in groupby(metrics, key=lambda metric: metric.compared):
        yield list(same)


def _figures(
    rows: Sequence[Row],
    metrics: Sequence[Metric],
    labels: Mapping[Contender, str],
    said: Statements,
) -> Table:
    columns = [_Column(metric, rows) for metric in metrics]
    table = _plain_table()
    table.add_column("", overflow="fold")
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    for row in rows:
        who = labels[row.contender] + (" !" if flaw(row) else "")
        table.add_row(tables.cell(who), *(column.value(row) for column in columns))
        marks = said.of(row.contender)
        changes = [marks.get(column.metric.key) for column in columns]
        if any(changes):
            cells = [
                "" if one is None else tables.cell(_marked(one.amount(), one.verdict), "dim")
                for one in changes
            ]
            table.add_row("", *cells)
    return table


class _Column:
    """A metric's values, all in one unit, which the heading has."""

    def __init__(self, metric: Metric, rows: Sequence[Row]) -> None:
        self.metric = metric
        self._unit = unit_of(metric, rows)

    @property
    def heading(self) -> str:
        words = self.metric.title.split(" ")
        return "\n".join([*[""] * (2 - len(words)), *words, self._unit.name])

    def value(self, row: Row) -> str:
        cell = row.cells[self.metric.key]
        return "-" if cell is None else self._unit.digits(cell.mean)


def _marked(amount: str, verdict: Verdict) -> str:
    return f"{amount} {verdict.mark}"


def _show_statements(
    console: Console, rows: Sequence[Row], labels: Mapping[Contender, str], said: Statements
) -> None:
    table = _plain_table()
    for heading in (f"against {labels[rows[0].contender]}", "", "ratio"):
        table.add_column(heading, no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("")
    for row in rows[1:]:
        who = labels[row.contender]
        for one in said.of(row.contender).values():
            verdict = one.verdict.value
            if one.verdict is Verdict.ONE_SEED and one.by_chance:
                verdict = f"by chance {one.chance()}"
            table.add_row(
                tables.cell(who),
                one.metric.title,
                one.amount(),
                one.interval(),
                tables.cell(verdict, _STYLES.get(one.verdict, "")),
            )
            who = ""
    console.print()
    console.print(table)


def _show_flaws(console: Console, rows: Sequence[Row], labels: Mapping[Contender, str]) -> None:
    for row in rows:
        if why := flaw(row):
            words = f"! {labels[row.contender]}: not to be trusted: {why}"
            console.print(tables.cell(words, "yellow"))


def _show_rule(
    console: Console, rows: Sequence[Row], labels: Mapping[Contender, str], said: Statements
) -> None:
    console.print()
    first = labels[rows[0].contender]
    marks = f"Below a number: its ratio to {first}'s on the same clock; + better, - worse, "
    console.print(tables.cell(f"{marks}= the same, ? may be chance, ! not to be trusted.", "dim"))
    console.print(tables.cell(said.rule(rows), "dim"))


def _show_agreements(console: Console, found: Sequence[Agreement]) -> None:
    console.print("\nDo the two clocks agree?")
    table = _plain_table()
    table.add_column("", no_wrap=True)
    for heading in ("emulated", "simulated,\nits blocks", "off by", "by chance", "seed's\nblocks"):
        table.add_column(heading, justify="right", no_wrap=True)
    doubts: list[str] = []
    for who, same in groupby(found, key=lambda one: one.who):
        table.add_row(tables.cell(who, "bold"))
        for one in same:
            mark = " !" if one.doubt else ""
            table.add_row(f"  {one.metric.title}{mark}", *one.shown())
            if one.doubt:
                doubts.append(f"! {who}, {one.metric.title}: {one.doubt}")
    console.print(table)
    for doubt in doubts:
        console.print(tables.cell(doubt, "yellow"))
    console.print(tables.cell(_OF_BLOCKS, "dim"))


def _labels_of_own(rows: Sequence[Row], labels: Mapping[Contender, str]) -> dict[Contender, str]:
    """With their clocks if there are two, and a mark for those that cannot be trusted."""
    both = len({row.contender.clock for row in rows}) > 1
    return {
        row.contender: labels[row.contender]
        + (f", {CLOCK_WORDS[row.contender.clock]}" if both else "")
        + (" !" if flaw(row) else "")
        for row in rows
    }


def _show_own(console: Console, own: Sequence[OwnFigure], labels: Mapping[Contender, str]) -> None:
    console.print("\nThe schedulers' own figures")
    table = _plain_table()
    for heading in ("scheduler", "policy", "figure"):
        table.add_column(heading, overflow="fold")
    table.add_column("", justify="right", no_wrap=True)
    before: Contender | None = None
    for one in own:
        of, who = one.contender, ""
        if of != before:
            who, before = labels[of], of
        value = " ".join(filter(None, one.shown()))
        table.add_row(who, tables.cell(one.policy), tables.cell(one.words), value)
    console.print(table)


def _show_counters(
    console: Console, counts: Sequence[Counted], labels: Mapping[Contender, str]
) -> None:
    console.print("\nWhat the jobs counted, all of a run together")
    table = _plain_table()
    for heading in ("counter", "scheduler"):
        table.add_column(heading, overflow="fold")
    table.add_column("", justify="right", no_wrap=True)
    for one in counts[:_COUNTERS_MAX]:
        who = "all" if one.contender is None else labels[one.contender]
        table.add_row(tables.cell(one.name), tables.cell(who), one.shown())
    console.print(table)
    if len(counts) > _COUNTERS_MAX:
        console.print(f"{len(counts) - _COUNTERS_MAX} more are in --json")


def _plain_table() -> Table:
    from rich.table import Table

    return Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
