"""A command's request: one frozen dataclass; its fields are the command's options.

    @dataclass(frozen=True, kw_only=True)
    class Request:
        seed: int = option("--seed", type=SEED, default=1, help="Default: 1.")

    @command(Request)
    def draw(request: Request) -> None:
        '''Draw a workload.'''

A value is parsed and checked once, by its option's ``type`` or ``callback``, and the result becomes
the field's value.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from railyard.cluster.config import Restart
from railyard.cluster.errors import COUNT_MAX, UsageError, require_name, require_once, unknown_name
from railyard.cluster.files import Durability
from railyard.cluster.units import number_or_text, parse_size
from railyard.gateway.address import LOOPBACK
from railyard.jobs.model import REDUCES_MAX

R = TypeVar("R")

_MAKE = "parameter"  #: key of a field's metadata


def option(*names: str, default: Any = None, **settings: Any) -> Any:
    """A field that is an option of click's; ``default`` may be a function.

    A required option has no default, one that can be repeated has ().
    """
    if default is not None:
        settings["default"] = default
    if settings.get("required"):
        default = MISSING
    elif settings.get("multiple"):
        default = ()
    return _field(default, partial(click.Option, **settings), names)


def argument(**settings: Any) -> Any:
    """A field that is an argument of click's: required, or else () where nothing is typed."""
    default = MISSING if settings.get("required") else ()
    return _field(default, partial(click.Argument, **settings), ())


def command(request: type[R]) -> Callable[[Callable[[R], Any]], click.Command]:
    """Make a command of a function that takes a request of this type."""

    def decorate(carry_out: Callable[[R], Any]) -> click.Command:
        def callback(**typed: Any) -> Any:
            return carry_out(request(**typed))

        name = carry_out.__name__
        params = _parameters(request)
        return click.command(name, cls=Command, params=params, help=carry_out.__doc__)(callback)

    return decorate


class Command(click.Command):
    """A command that refuses an option that is given twice, where the last would silently win."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        single = (
            one.opts[0]
            for one in given
            if isinstance(one, click.Option) and not (one.multiple or one.is_flag or one.count)
        )
        require_once(single)
        return super().parse_args(ctx, args)


class Commands(click.Group):
    """A group that answers a wrong name with the nearest right one."""

    command_class = Command

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        found = super().get_command(context, name)
        if found is None:
            raise unknown_name(f"{self.name} command", name, self.commands)
        return found


def _field(default: Any, kind: Callable[..., click.Parameter], names: tuple[str, ...]) -> Any:
    metadata = {_MAKE: lambda name: kind([*names, name])}
    if default is not MISSING and callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def _parameters(request: type[Any]) -> list[click.Parameter]:
    """One for each field, those of the class itself before those of its bases."""
    declared: dict[str, int] = {}
    for depth, base in enumerate(request.__mro__):
        for name in inspect.get_annotations(base):
            declared.setdefault(name, depth)
    ordered = sorted(fields(request), key=lambda one: declared[one.name])
    return [one.metadata[_MAKE](one.name) for one in ordered if _MAKE in one.metadata]


# Types and callbacks of options, which turn text into checked values.


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
        from railyard.cluster.inputfile import build

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
    durability: Durability | None = option(
        "--durability",
        type=click.Choice(["fast", "safe"]),
        help="safe (default): files are on the disk before they are acknowledged.  fast: they "
        "outlive any process, but not a power cut.",
    )
    return durability


def restart_option() -> Restart | None:
    """The option that says whether daemons that died are restarted."""
    restart: Restart | None = option(
        "--restart",
        type=click.Choice(["never", "on-failure"]),
        help="on-failure (default): a daemon that died is restarted, unless it dies again and "
        "again.  never: a NodeManager, DataNode or gateway stays dead, and without any other the "
        "cluster ends.",
    )
    return restart


def strict_option() -> bool:
    """The option that refuses what a machine that was too busy measured (docs/exit-status.md)."""
    strict: bool = option(
        "--strict",
        is_flag=True,
        default=False,
        help="Exit status 5 if the machine was too busy for the times of an emulated run to be "
        "trusted.",
    )
    return strict


# The option --http: where the gateway answers.


class HttpAddress(NamedTuple):
    """Where to answer HTTP; port 0 is any that is free."""

    host: str
    port: int


def http_address(_: click.Context, option: click.Parameter, value: str) -> HttpAddress | None:
    """An address: of this machine alone unless a host is named; None for "none"."""
    if value in ("auto", "none"):
        return HttpAddress(LOOPBACK, 0) if value == "auto" else None
    host, _colon, port = value.rpartition(":")
    if not (port.isdecimal() and port.isascii() and 0 < int(port) < 2**16):
        right = "auto, none, or a port from 1 to 65535, as in 8088 or 192.168.1.5:8088"
        raise UsageError(f"{option.opts[0]} {value}: need {right}")
    return HttpAddress(host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port))
