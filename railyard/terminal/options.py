"""Options of commands: fields of frozen dataclasses, and the callbacks that check their values.

@dataclass(frozen=True, kw_only=True)
class Request:
    seed: int = option("--seed", type=SEED, default=1, help="Default: 1.")

@command(Request)
def draw(request: Request) -> None:
    '''Draw a workload.'''
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import click

from railyard.cluster.errors import COUNT_MAX, UsageError, require_name, require_once, unknown_name
from railyard.cluster.units import number_or_text, parse_size
from railyard.jobs.model import REDUCES_MAX

R = TypeVar("R")

_MAKE = "parameter"  #: key of a field's metadata
_SAME = object()  #: the field's value is the option's default


def option(*names: str, default: Any = None, value: Any = _SAME, **settings: Any) -> Any:
    """A field that is an option of click's; ``default`` may be a function.

    ``value`` is the field's where there is no command line, if that is not ``default``.  A required
    option has none, one that can be repeated has ().
    """
    if default is not None:
        settings["default"] = default
    if value is _SAME:
        value = () if settings.get("multiple") else default
        value = MISSING if settings.get("required") else value
    return _field(value, partial(click.Option, **settings), names)


def argument(*, value: Any = _SAME, **settings: Any) -> Any:
    """A field that is an argument of click's: required, or else () where nothing is typed."""
    if value is _SAME:
        value = MISSING if settings.get("required") else ()
    return _field(value, partial(click.Argument, **settings), ())


def command(
    request: type[R], names: str = "", **instead: Any
) -> Callable[[Callable[[R], Any]], click.Command]:
    """Make a command of a function that takes a request of this type.

    ``names``: of the fields that are its arguments and options, in the order of its help; all if
    there are none.  ``instead``: other options for some of them.
    """

    def decorate(carry_out: Callable[[R], Any]) -> click.Command:
        def callback(**typed: Any) -> Any:
            return carry_out(request(**typed))

        own: dict[str, Any] = {one.name: one for one in fields(request)} | instead  # type: ignore[arg-type]
        params = [own[name].metadata[_MAKE](name) for name in names.split() or own]
        name = carry_out.__name__
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
