"""The pages of all commands, from what click knows of them, and of all that interfaces accept."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from railyard.cli.commands.registry import railyard
from railyard.cluster.acceptance import Accepted, Effect, declared
from railyard.cluster.faults import FAULTS
from railyard.cluster.topology import accepted_keys
from railyard.gateway.shell import admin, command, generic, jar, jobs
from railyard.gateway.shell import jobs as applications
from railyard.gateway.webhdfs.parameters import PARAMETERS
from railyard.gateway.yarn.answers import FIELDS, FILTERS
from railyard.jobs.streaming.settings import SETTINGS
from railyard.jobs.workloads.catalog import FAMILIES
from railyard.jobs.workloads.mixes import MIX, accepted_options
from railyard.reference.markdown import WRITTEN, code, plain, table
from railyard.simulator.behaviour import Behaviour

_COMMANDS = f"""\
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
    return "\n".join([_COMMANDS, *_command_sections(railyard, context)])


def _command_sections(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        own = click.Context(command, parent=context, info_name=name)
        yield _section(command, own)
        if isinstance(command, click.Group):
            yield from _command_sections(command, own)


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


# What is accepted ---------------------------------------------------------------------------------
#: All tables, in the order of the page.
TABLES: tuple[Accepted, ...] = (
    generic.OPTIONS,
    jar.OPTIONS,
    SETTINGS,
    command.OPTIONS,
    generic.SETTINGS,
    applications.APPLICATION_OPTIONS,
    jobs.OPTIONS,
    admin.OPTIONS,
    PARAMETERS,
    FILTERS,
    FIELDS,
    *(family.accepted for family in FAMILIES.values()),
    accepted_options("a job"),
    accepted_options(MIX),
    declared("nodes of a simulation: --behaviour", "key", Behaviour),
    FAULTS,
    *accepted_keys(),
)

_ACCEPTED = f"""\
# What is accepted

{WRITTEN}
Each name that an interface knows is **used**, **changes no result here**, or is **refused** with
an error of one line. A name that stands in no table is refused, too, where it begins as the
interface's own names do.
"""


def accepted_page() -> str:
    """The whole page, in Markdown: how many entries each table has, then the tables."""
    counts = table(
        ("interface", *(str(effect) for effect in Effect)),
        [(each.interface, *(str(len(each.named(effect))) for effect in Effect)) for each in TABLES],
    )
    return "\n".join([_ACCEPTED, counts, *_accepted_sections()])


def _accepted_sections() -> Iterator[str]:
    for each in TABLES:
        rows = [
            (code(name), str(effect), plain(each.entries[name].note))
            for effect in Effect
            for name in each.named(effect)
        ]
        own = f"Other names that begin with {', '.join(map(code, each.begins))} are refused."
        yield f"## {each.interface}\n"
        yield table((each.noun, "here", ""), rows) + (f"\n{own}\n" if each.begins else "")
