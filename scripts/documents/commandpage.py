"""The page of all commands with their arguments and options, from what click knows of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from railyard.scripts.commands.registry import railyard
from railyard.scripts.documents.markdown import WRITTEN, code, plain, table

_HEAD = f"""\
# Commands

{WRITTEN}
`railyard` is `.venv/bin/railyard` in the checkout. `scripts/run-job`, `scripts/compare`,
`scripts/simulate`, `scripts/start-cluster`, `scripts/stop-cluster` and `scripts/bench` set up
what is missing and then call `railyard run`, `compare`, `simulate`, `up`, `down` and `bench` with
the same options. What the exit status says: [exit-status.md](../exit-status.md).
"""


def command_page() -> str:
    """The whole page, in Markdown: a section for each command, those of groups after the group."""
    context = click.Context(railyard, info_name="railyard")
    return "\n".join([_HEAD, *_sections(railyard, context)])


def _sections(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        own = click.Context(command, parent=context, info_name=name)
        yield _section(command, own)
        if isinstance(command, click.Group):
            yield from _sections(command, own)


def _section(command: click.Command, context: click.Context) -> str:
    pieces = " ".join(command.collect_usage_pieces(context))
    words = inspect.cleandoc(command.help or "").replace("\b", "")
    text = "\n\n".join(plain(paragraph) for paragraph in words.split("\n\n"))
    parts = [f"## {context.command_path}", f"    {context.command_path} {pieces}", text]
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if options:
        rows = [(code(_typed(one)), plain(one.help or "")) for one in options]
        parts.append(table(("option", "meaning"), rows))
    return "\n\n".join(parts).rstrip() + "\n"


def _typed(option: click.Option) -> str:
    """An option as it is typed: "--size TEXT"."""
    names = ", ".join([*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {_value(option)}"


def _value(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices))
    return "N" if isinstance(option.type, click.types.IntParamType) else "TEXT"
