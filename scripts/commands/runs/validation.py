"""``railyard validation``: the papers' headlines beside recorded numbers of ours, as one page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from railyard.cluster.errors import UsageError
from railyard.scripts.results.outputfile import write_text
from railyard.scripts.terminal.options import writable_file
from railyard.scripts.terminal.request import argument, command, option

if TYPE_CHECKING:
    from railyard.scripts.reproduce.validation import Row


@dataclass(frozen=True, kw_only=True)
class ValidationRequest:
    """Arguments and options of ``railyard validation``."""

    folder: Path = argument(
        required=True, metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
    )
    added: tuple[Path, ...] = option(
        "--add",
        multiple=True,
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="First record the headlines of what railyard reproduce --json wrote; repeatable.",
    )
    output: Path | None = option(
        "--output", metavar="FILE", callback=writable_file, help="Write the page to this file."
    )


@command(ValidationRequest)
def validation(request: ValidationRequest) -> None:
    """Print published headlines beside the numbers that DIR has of ours, with verdicts.

    DIR has a file of records for each paper, which --add brings up to date.
    """
    from railyard.scripts.reproduce.headlines import ELSEWHERE
    from railyard.scripts.reproduce.validation import page

    for file in request.added:
        _record(file, request.folder)
    text = page(_rows(request.folder), ELSEWHERE)
    if request.output is None:
        click.echo(text, nl=False)
    else:
        write_text(text, request.output)


def _record(file: Path, folder: Path) -> None:
    from railyard.scripts.reproduce.headlines import HEADLINES
    from railyard.scripts.reproduce.validation import load, of_headlines, recorded, save

    try:
        numbers: Any = json.loads(file.read_bytes())
        paper = numbers["paper"]
        found = recorded(numbers, HEADLINES[paper])
    except (ValueError, KeyError, TypeError, UsageError) as error:
        right = "what railyard reproduce --json wrote"
        raise UsageError(f"{file}: {error}: need {right}") from error
    records = folder / f"{paper}.json"
    save(of_headlines(load(records) | found, HEADLINES[paper]), records)


def _rows(folder: Path) -> Sequence[Row]:
    from railyard.scripts.reproduce.headlines import HEADLINES
    from railyard.scripts.reproduce.papers import paper
    from railyard.scripts.reproduce.validation import Key, Row, load

    rows = []
    for name, headlines in HEADLINES.items():
        records, known = load(folder / f"{name}.json"), paper(name)
        for each in headlines:
            figure, line = each.in_paper(known)
            key = Key(each.figure, each.case, each.subject, each.measure)
            rows.append(
                Row(
                    paper=name,
                    where=figure.where,
                    headline=each,
                    line=line,
                    recorded=records.get(key),
                )
            )
    return rows
