"""Types and callbacks of options, which turn text into checked values."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import click

from railyard.cluster.config import Restart
from railyard.cluster.errors import COUNT_MAX, UsageError, require_name, require_once
from railyard.cluster.files.lasting import Durability
from railyard.cluster.units import number_or_text, parse_size
from railyard.jobs.model import REDUCES_MAX
from railyard.scripts.terminal.request import option as request_option

#: KEY=VALUE pairs as typed, and with values turned into numbers and truth values.
TextPairs = tuple[tuple[str, str], ...]
Settings = tuple[tuple[str, str | int | float | bool], ...]

COUNT = click.IntRange(min=1, max=COUNT_MAX)
SEED = click.IntRange(min=0, max=2**63 - 1)
REDUCES = click.IntRange(min=1, max=REDUCES_MAX)


def as_number(text: str) -> str | int | float | bool:
    """A setting's text as the number or truth value that it looks like."""
    if text in ("true", "false"):
        return text == "true"
    return number_or_text(text)


def size(_: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """A size such as 10GB, in bytes."""
    return None if value is None else parse_size(value, option.opts[0])


def seed_range(_: click.Context, option: click.Parameter, value: str | None) -> int | range | None:
    """A number of seeds, "7", or which they are, "4-10"."""
    if value is None:
        return None
    first, dash, last = value.partition("-")
    numbers = [int(text) for text in (first, last) if text.isdecimal() and len(text) < 8]
    if len(numbers) != 1 + bool(dash) or not 0 < numbers[0] <= numbers[-1] <= COUNT_MAX:
        raise UsageError(f"{option.opts[0]} {value}: need a number of seeds, or a range as in 4-10")
    return range(numbers[0], numbers[1] + 1) if dash else numbers[0]


def seeds_in_words(seeds: range) -> str:
    """Seeds as ``seed_range`` reads them."""
    return f"{seeds[0]}-{seeds[-1]}"


def name(_: click.Context, option: click.Parameter, value: str) -> str:
    """The name of a user, a queue or the like; it must be printable."""
    require_name(option.opts[0], value)
    return value


def text_pairs(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> TextPairs:
    """Each KEY=VALUE as a pair of texts."""
    pairs = [(text, *text.partition("=")) for text in values]
    for text, key, equals, _value in pairs:
        if not (key and equals):
            raise UsageError(f"{option.opts[0]} {text}: need KEY=VALUE")
    require_once((key for _text, key, _equals, _value in pairs), option.opts[0])
    return tuple((key, value) for _text, key, _equals, value in pairs)


def settings(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Settings:
    """Each KEY=VALUE as a pair; its value is a number, a truth value or text."""
    return tuple((key, as_number(text)) for key, text in text_pairs(context, option, values))


def settings_of(
    import_type: Callable[[], type[Any]],
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], Any]:
    """A callback that makes an object of the type out of all KEY=VALUE."""

    def parse(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Any:
        from railyard.cluster.tomlfile import build

        return build(dict(settings(context, option, values)), import_type(), option.opts[0])

    return parse


def writable_file(_: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """A file for results; refused before hours of work if it could not be written."""
    if value is None:
        return None
    path = Path(value)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"{option.opts[0]} {value}: need a file in a folder that exists")
    _require_writable(option, path if path.exists() else path.absolute().parent, value)
    return path


def new_folder(_: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """The path of a folder that is to be made; refused if there is something already."""
    if value is None:
        return None
    path = Path(value)
    if os.path.lexists(path):
        right = f"need a new folder, such as {_unused(path)}"
        raise UsageError(f"{option.opts[0]} {value}: is there already, and stays as it is: {right}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{option.opts[0]} {value}: need a new folder in a folder that exists")
    _require_writable(option, path.absolute().parent, value)
    return path


def _unused(path: Path) -> Path:
    """A name beside it that nothing has: "results-2"."""
    names = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(name for name in names if not os.path.lexists(name))


def _require_writable(option: click.Parameter, place: Path, value: str) -> None:
    if not os.access(place, os.W_OK):
        raise UsageError(f"{option.opts[0]} {value}: need a place that you may write to")


def durability_option() -> Durability | None:
    """The option that says what the block store's acknowledgements promise (docs/durability.md)."""
    durability: Durability | None = request_option(
        "--durability",
        type=click.Choice(["fast", "safe"]),
        help="safe (default): files are on the disk before they are acknowledged.  fast: they "
        "outlive any process, but not a power cut.",
    )
    return durability


def restart_option() -> Restart | None:
    """The option that says whether daemons that died are restarted."""
    restart: Restart | None = request_option(
        "--restart",
        type=click.Choice(["never", "on-failure"]),
        help="on-failure (default): a daemon that died is restarted, unless it dies again and "
        "again.  never: a NodeManager, DataNode or gateway stays dead, and without any other the "
        "cluster ends.",
    )
    return restart


def strict_option() -> bool:
    """The option that refuses what a machine that was too busy measured (docs/exit-status.md)."""
    strict: bool = request_option(
        "--strict",
        is_flag=True,
        default=False,
        help="Exit status 5 if the machine was too busy for the times of an emulated run to be "
        "trusted.",
    )
    return strict
