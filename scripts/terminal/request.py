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
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from functools import partial
from typing import Any, TypeVar

import click

from railyard.cluster.errors import require_once, unknown_name

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
