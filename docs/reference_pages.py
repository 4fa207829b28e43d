"""Pages of the site that are written from the code, and the diagrams of ``docs/states.md``.

``docs/conf.py`` has them written into ``docs/reference/``, which is not in git.  Each is a template
in ``docs/_pages/``: Markdown, with tables that loop over what is here.  Tests read the pages
without Sphinx.  Not here: pages that people write (``docs/``).
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import EnumMeta
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import click
import jinja2
from msgspec import NODEFAULT
from msgspec import inspect as types

import railyard
from railyard.api.listings import Setting, settings_of_recipe
from railyard.api.results import Run
from railyard.cli.commands.registry import railyard as command_line
from railyard.cluster.acceptance import Accepted, Effect, declared, meanings
from railyard.cluster.faults import FAULTS
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import SHORT, TABLES_OF_FILE
from railyard.gateway.shell import admin, command, generic, jar
from railyard.gateway.webhdfs.parameters import PARAMETERS
from railyard.gateway.yarn.answers import FIELDS, FILTERS
from railyard.jobs.streaming.settings import SETTINGS
from railyard.jobs.workloads.catalog import FAMILIES
from railyard.jobs.workloads.mixes import MIX, accepted_options
from railyard.netemu.record import CircuitUse
from railyard.netemu.schedulers import flow_schedulers
from railyard.resourcemanager.core.lifecycles import LIFECYCLES
from railyard.resourcemanager.interface.events import EVENTS
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers import all_recipes
from railyard.runs.folder import FILES, Origin
from railyard.simulator.behaviour import Behaviour

FOLDER = Path(__file__).parent
#: Letters that Markdown reads as markup, outside of code.
_MARKUP = re.compile(r"([*<\[\]|])")
_CODE = re.compile(r"(``.+?``|`.+?`)")


# Markdown -----------------------------------------------------------------------------------------
def code(text: str) -> str:
    """Text in a table's cell, as code."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def codes(texts: Iterable[str]) -> str:
    """Several, with commas between."""
    return ", ".join(map(code, texts))


def plain(text: str) -> str:
    """Text in one line whose letters mean themselves, but for `code` and ``code``."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(
        code(part.strip("`")) if at % 2 else _MARKUP.sub(r"\\\1", part)
        for at, part in enumerate(parts)
    )


def paragraphs(text: str) -> str:
    """Several lines of that kind, with blank ones between."""
    return "\n\n".join(map(plain, inspect.cleandoc(text).split("\n\n")))


def first_words(thing: Any) -> str:
    """The first paragraph of a docstring."""
    return plain(inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0])


# Fields of classes: files of a run, topologies, simulated nodes -----------------------------------
#: {end of a field's name: the unit of its numbers}
_UNITS = {
    "bytes_per_s": "bytes/s",
    "bytes": "bytes",
    "bytes_max": "bytes",
    "ms_p99": "ms",
    "s": "s",
    "s_max": "s",
}
#: {kind of value: a unit as it is typed, and its size}
_TYPED = {"size": ("MB", 1e6), "rate": ("MB/s", 1e6), "time": ("s", 1.0)}
_KINDS: dict[type[types.Type], str] = {
    types.BoolType: "true or false",
    types.CustomType: "text",
    types.FloatType: "number",
    types.IntType: "number",
    types.NoneType: "null",
    types.StrType: "text",
}


class Field(NamedTuple):
    """A field of a class."""

    name: str
    kind: str  #: its type, as JSON and TOML have it
    unit: str  #: of a number: "bytes", "s"
    default: str  #: as it is typed; "needed": none
    meaning: str


def fields(kind: type, names: Sequence[str] = ()) -> Iterator[Field]:
    """Of a struct, dataclass or named tuple; ``names``: of the fields that have it."""
    notes = meanings(kind)
    unit = _unit(names[0]) if len(names) == 1 else ""
    for field in _fields(kind):
        words = _words(field.type)
        yield Field(
            field.name,
            words,
            _unit(field.name) or unit,
            _default(field, words.removesuffix(" or null")),
            plain(notes.get(field.name, "")),
        )


def _fields(kind: type) -> tuple[types.Field, ...]:
    info = types.type_info(kind)
    assert isinstance(info, types.StructType | types.DataclassType | types.NamedTupleType)
    return info.fields


def _unit(name: str) -> str:
    return next((unit for end, unit in _UNITS.items() if f"_{name}".endswith(f"_{end}")), "")


def parts(kind: type) -> dict[type, list[str]]:
    """{a struct: the fields of another that have it}"""
    found: dict[type, list[str]] = {}
    for field in _fields(kind):
        for part in _structs(field.type):
            found.setdefault(part, []).append(field.name)
    return found


def _structs(kind: types.Type) -> Iterator[type]:
    if isinstance(kind, types.StructType):
        yield kind.cls
    for part in _inside(kind):
        yield from _structs(part)


def _inside(kind: types.Type) -> Sequence[types.Type]:
    """What a type is made of: a union's types, those of a list's items or of a table's values."""
    match kind:
        case types.UnionType():
            return sorted(kind.types, key=lambda each: isinstance(each, types.NoneType))
        case types.ListType() | types.VarTupleType():
            return [kind.item_type]
        case types.TupleType():
            return kind.item_types[:1]
        case types.DictType():
            return [kind.value_type]
    return ()


def _words(kind: types.Type) -> str:
    inside = " or ".join(dict.fromkeys(map(_words, _inside(kind))))
    match kind:
        case types.Metadata():
            title = (kind.extra_json_schema or {}).get("title")
            return "time" if title == "duration" else title or _words(kind.type)
        case types.UnionType():
            return inside
        case types.DictType():
            return f"object: {inside}"
        case types.LiteralType():
            return " or ".join(code(str(value)) for value in kind.values)
    return f"list: {inside}" if inside else _KINDS.get(type(kind), "object")


def _default(field: types.Field, kind: str) -> str:
    default = field.default
    if default is NODEFAULT:
        return "needed" if field.required else ""
    if isinstance(default, bool):
        return code(str(default).lower())
    if isinstance(default, int | float):
        unit, size = _TYPED.get(kind, ("", 1.0))
        return code(f"{default / size:g}{unit}" if default else "0")
    return code(default or "")


def topology() -> Iterator[tuple[str, str, list[Field]]]:
    """(table of a topology's file, what is said of it, its keys); first those before all tables."""
    tables = {name.partition(".")[0] for name in TABLES_OF_FILE}
    first = [field for field in fields(Topology) if field.name not in tables]
    yield "", "These stand at the top of the file, `[settings]` is a table.", first
    for name, kind in TABLES_OF_FILE.items():
        words = paragraphs((kind.__doc__ or "").partition(": ")[2])
        yield name, words[:1].upper() + words[1:], list(fields(kind))


# Schedulers ---------------------------------------------------------------------------------------
def schedulers() -> Iterator[tuple[Recipe, list[str]]]:
    """(a scheduler, the sections of its settings)"""
    for _, recipe in sorted(all_recipes(()).items()):
        sections = [setting.name.partition(".")[0] for setting in settings_of_recipe(recipe)]
        yield recipe, list(dict.fromkeys(sections))


def settings() -> Iterator[tuple[str, list[Setting]]]:
    """(section, its settings), each setting once, with the defaults of all schedulers."""
    uses: dict[str, dict[str, Setting]] = {}
    for scheduler, recipe in sorted(all_recipes(()).items()):
        for setting in settings_of_recipe(recipe):
            uses.setdefault(setting.name, {})[scheduler] = setting
    for section, names in groupby(sorted(uses), lambda name: name.partition(".")[0]):
        yield section, [_of_all(uses[name]) for name in names]


def _of_all(uses: dict[str, Setting]) -> Setting:
    [(usual, _), *others] = Counter(setting.default for setting in uses.values()).most_common()
    default = code(usual)
    for other, _ in others:
        users = codes(name for name, setting in uses.items() if setting.default == other)
        default += f"; {code(other)} for {users}"
    return replace(next(iter(uses.values())), default=default)


# Commands -----------------------------------------------------------------------------------------
def commands(
    group: click.Group = command_line, parent: click.Context | None = None
) -> Iterator[tuple[click.Command, click.Context]]:
    """All commands, those of a group after the group."""
    context = parent or click.Context(group, info_name="railyard")
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if found is not None and not found.hidden:
            own = click.Context(found, parent=context, info_name=name)
            yield found, own
            if isinstance(found, click.Group):
                yield from commands(found, own)


def options(command: click.Command) -> Iterator[tuple[str, str]]:
    """(an option as it is typed, "--size TEXT"; its help)"""
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            names = ", ".join([*option.opts, *option.secondary_opts])
            yield names if option.is_flag else f"{names} {_value(option)}", option.help or ""


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return option.metavar or "|".join(map(str, option.type.choices))
    return option.metavar or ("N" if isinstance(option.type, click.types.IntParamType) else "TEXT")


# What is accepted ---------------------------------------------------------------------------------
def accepted_keys() -> Iterator[Accepted]:
    """The keys of a topology's file, a table for each of its own."""
    inside = tuple(name.partition(".")[0] for name in TABLES_OF_FILE)
    yield declared("topologies: before all tables", "key", Topology, without=inside)
    for name, kind in TABLES_OF_FILE.items():
        yield declared(f"topologies: [{name}]", "key", kind)


#: All tables, in the order of the page.
TABLES: tuple[Accepted, ...] = (
    generic.OPTIONS,
    jar.OPTIONS,
    SETTINGS,
    command.OPTIONS,
    generic.SETTINGS,
    admin.APPLICATION_OPTIONS,
    admin.JOB_OPTIONS,
    admin.DFSADMIN_OPTIONS,
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


# Python -------------------------------------------------------------------------------------------
#: {first folder of the module: heading}; the others come last
_HEADINGS = {
    "api": "Clusters, runs and results",
    "jobs": "Jobs",
    "resourcemanager": "Schedulers",
    "netemu": "Networks",
}
_OTHERS = "Other"
#: Longest signature in one line.
_LETTERS_MAX = 80
#: Types of the standard library and the like are shown by their own names.
_MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")
#: An annotation that was not evaluated.
_QUOTED = re.compile(r"(: |-> )(['\"])(.*?)\2(?= = |, |\)|$)")
#: A default that is a function or an object.
_NO_VALUE = re.compile(r"<\w+ (?:[\w.]+\.)?(\w+)[^>]*>")


def python_names() -> dict[str, list[tuple[str, Any]]]:
    """{heading: (name, what it is), of all that ``import railyard`` has}"""
    found: dict[str, list[tuple[str, Any]]] = {heading: [] for heading in _HEADINGS.values()}
    for name in sorted(railyard.__all__, key=str.lower):
        thing = getattr(railyard, name)
        folder = thing.__module__.removeprefix("railyard.").partition(".")[0]
        found.setdefault(_HEADINGS.get(folder, _OTHERS), []).append((name, thing))
    return found


def call(thing: Any, name: str) -> str:
    """How it is called, or the members of an enumeration; "" for a protocol or a union."""
    if isinstance(thing, EnumMeta):
        return "\n".join(f"{name}.{member}" for member in thing.__members__)
    if not callable(thing) or getattr(thing, "_is_protocol", False):
        return ""
    text = f"{name}{_signature(thing)}"
    if len(text) > _LETTERS_MAX:  # a line for each parameter
        text = re.sub(r"(?<=\w\()|, (?=\*|\w+: )", lambda at: f"{at[0].strip()}\n    ", text)
    return text


def methods(kind: type[Any]) -> Iterator[str]:
    """Public methods and properties of a class and of its bases that are ours, a line each."""
    for name in dir(kind):
        it = inspect.getattr_static(kind, name)
        wrapped = it.fget if isinstance(it, property) else getattr(it, "func", it)
        function = getattr(wrapped, "__func__", wrapped)
        is_ours = inspect.isfunction(function) and function.__module__.startswith("railyard")
        if name.startswith("_") or not is_ours:
            continue
        call = "" if isinstance(it, property | cached_property) else _signature(function)
        first = first_words(function)
        yield f"`{name}{call}`" + (f": {first}" if first else "")


def _signature(thing: Any) -> str:
    """A signature without the names of modules; of a class without what it returns."""
    try:
        signature = inspect.signature(thing)
    except (ValueError, TypeError):
        return "(...)"
    if inspect.isclass(thing):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    text = _QUOTED.sub(r"\1\3", str(signature)).removesuffix(" -> None")
    text = re.sub(r"^\((?:self|cls)(?:, )?", "(", text)
    return _MODULES.sub("", _NO_VALUE.sub(r"\1", text))


# States -------------------------------------------------------------------------------------------
def node(state: str) -> str:
    """A state's name in a diagram."""
    return state.replace(" ", "_")


def arrows(transitions: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str], list[str]]:
    """{(state before, state after): the events}"""
    found: dict[tuple[str, str], list[str]] = {}
    for before, event, after in transitions:
        found.setdefault((before, after), []).append(event)
    return found


# All pages ----------------------------------------------------------------------------------------
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(FOLDER / "_pages"),
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
_TEMPLATES.filters |= {
    "code": code,
    "codes": codes,
    "docstring": inspect.getdoc,
    "first_words": first_words,
    "node": node,
    "paragraphs": paragraphs,
    "plain": plain,
}
_TEMPLATES.globals |= {
    "BEHAVIOUR": Behaviour,
    "CIRCUIT": CircuitUse,
    "EFFECTS": list(Effect),
    "EVENTS": sorted(EVENTS.kinds(), key=lambda kind: kind.tag()),
    "FAMILIES": FAMILIES,
    "FILES": FILES,
    "LIFECYCLES": LIFECYCLES,
    "MODULES": sys.modules,
    "ORIGIN": Origin,
    "RUN": Run,
    "SHORT": {key: short for short, key in SHORT.items()},
    "TABLES": TABLES,
    "arrows": arrows,
    "call": call,
    "commands": commands,
    "fields": fields,
    "flow_schedulers": flow_schedulers,
    "methods": methods,
    "options": options,
    "parts": parts,
    "python_names": python_names,
    "schedulers": schedulers,
    "settings": settings,
    "topology": topology,
}


def page(name: str) -> str:
    """The text of a page."""
    text = _TEMPLATES.get_template(f"{name}.jinja").render()
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


_NAMES = sorted(path.stem for path in (FOLDER / "_pages").iterdir())
#: {file in ``docs/reference/``: what makes its text}
PAGES = {name: partial(page, name) for name in _NAMES if name != "states.md"}


def write_pages(folder: Path) -> None:
    """Write all of them into a folder."""
    folder.mkdir(exist_ok=True)
    for name, made in PAGES.items():
        (folder / name).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    (FOLDER / "states.md").write_text(page("states.md"), encoding="utf-8")
