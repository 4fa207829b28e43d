"""The pages of schedulers, flow schedulers, workloads, simulated nodes and keys of topologies."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from types import NoneType
from typing import Any, get_args

import msgspec

from railyard.api.listings import Setting, settings_of_recipe
from railyard.cluster.acceptance import meanings
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import SHORT, TABLES_OF_FILE, Table
from railyard.jobs.workloads.catalog import FAMILIES, Family
from railyard.netemu.schedulers import flow_schedulers
from railyard.netemu.schedulers.base import FlowScheduler, Serves
from railyard.reference.markdown import WRITTEN, code, codes, first_words, plain, table
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers import all_recipes
from railyard.simulator.behaviour import Behaviour

_SCHEDULERS = f"""\
# Schedulers and their settings

{WRITTEN}
`--scheduler NAME` chooses one, `--set KEY=VALUE` changes a setting. `railyard schedulers
--settings NAME` lists those of one. A name with a colon is a variant: a paper's ablation, or a
scheduler with other settings. A section of settings belongs to a policy; schedulers that share a
policy share its settings. How to write one: [tutorial](../tutorials/write-a-scheduler.md).
"""
_FLOWS = f"""\
# Flow schedulers

{WRITTEN}
A flow scheduler sets the rate of every open flow. `--flow-scheduler NAME` chooses one;
`--scheduler "delay + sjf"` names both. How to write one:
[tutorial](../tutorials/write-a-flow-scheduler.md).
"""


def scheduler_page() -> str:
    """The whole page, in Markdown."""
    recipes = dict(sorted(all_recipes(()).items()))
    settings = {name: list(settings_of_recipe(recipe)) for name, recipe in recipes.items()}
    rows = [_row(recipe, settings[name]) for name, recipe in recipes.items()]
    head = ("scheduler", "source", "goes with", "sections of settings")
    return "\n".join([_SCHEDULERS, table(head, rows), *_sections(settings)])


def _row(recipe: Recipe, settings: list[Setting]) -> tuple[str, ...]:
    sections = dict.fromkeys(setting.name.partition(".")[0] for setting in settings)
    listed = codes(sections)
    return code(recipe.name), plain(recipe.source), code(recipe.flow_scheduler), listed


def _sections(settings: dict[str, list[Setting]]) -> list[str]:
    """A section of the page for each section of settings; each setting once."""
    found: dict[str, dict[str, list[tuple[str, Setting]]]] = {}
    for scheduler, its in settings.items():
        for setting in its:
            section = found.setdefault(setting.name.partition(".")[0], {})
            section.setdefault(setting.name, []).append((scheduler, setting))
    return [
        f"## {name}\n\n" + table(("setting", "default", "meaning"), map(_setting, its.values()))
        for name, its in sorted(found.items())
    ]


def _setting(uses: list[tuple[str, Setting]]) -> tuple[str, ...]:
    counted = Counter(setting.default for _, setting in uses)
    [(usual, _), *others] = counted.most_common()
    words = code(usual)
    for other, _ in others:
        users = codes(name for name, setting in uses if setting.default == other)
        words += f"; {code(other)} for {users}"
    return code(uses[0][1].name), words, plain(uses[0][1].meaning)


def flow_scheduler_page() -> str:
    """The whole page, in Markdown."""
    every = sorted(flow_schedulers(()).items())
    rows = [
        (
            code(name),
            plain(_says(kind)),
            plain(kind.source),
            "coflows" if kind.serves is Serves.COFLOWS else "flows",
            code(kind.circuit_policy or ""),
        )
        for name, kind in every
    ]
    head = ("flow scheduler", "what it does", "source", "serves", "circuit policy")
    return f"{_FLOWS}\n{table(head, rows)}"


def _says(kind: type[FlowScheduler]) -> str:
    """The first paragraph of its module, and what its class says of itself."""
    return f"{first_words(sys.modules[kind.__module__])} {first_words(kind)}"


# Workloads and simulated nodes --------------------------------------------------------------------
_SIMULATION = f"""\
# Workloads and simulated nodes

{WRITTEN}
`--workload NAME,KEY=VALUE...` chooses a workload of the simulator; what the options mean is in
[workloads.md](../workloads.md). `--behaviour KEY=VALUE` makes simulated nodes differ from ideal
ones ([how to](../how-to/simulate-jobs.md)).
"""


def simulation_page() -> str:
    """The whole page, in Markdown: all workloads, the options of each, the keys of behaviour."""
    names = {name: f"{name}:{kind.file}" if kind.file else name for name, kind in FAMILIES.items()}
    rows = [(code(names[name]), plain(f.about), plain(f.source)) for name, f in FAMILIES.items()]
    options = ("workload", "options with their defaults")
    parts = [
        _SIMULATION,
        "## Workloads\n",
        table(("workload", "what it is", "source"), rows),
        table(options, [(code(name), _options(kind)) for name, kind in FAMILIES.items()]),
        "## Behaviour of simulated nodes\n",
        table(("key", "default", "meaning"), _behaviour()),
    ]
    return "\n".join(parts)


def _options(family: Family) -> str:
    return codes(family.defaults())


def _behaviour() -> list[tuple[str, ...]]:
    notes = meanings(Behaviour)
    return [
        (code(field.name), code(f"{field.default:g}"), plain(notes.get(field.name, "")))
        for field in msgspec.structs.fields(Behaviour)
    ]


# Topologies ---------------------------------------------------------------------------------------
_TOPOLOGY = f"""\
# Keys of a topology

{WRITTEN}
A topology is a TOML file. Those that come with Railyard are in `cluster/topologies/` (`railyard
topologies` lists them); one of your own is used by `--topology mine.toml`
([tutorial](../tutorials/write-a-topology.md)). `--network KEY=VALUE` changes a key for one run,
as in `--network compute.skew=0.2 --network rack.r3.uplink=1Gbps`. Unknown keys are refused.

A rate is text such as `"10Gbps"` (bits) or `"200MB/s"` (bytes), a size is as `"256MB"` or
`"64MiB"`, a time as `"10ms"`. Upper and lower case count: a capital B is a byte, a small b a bit.
Plain numbers are bytes and seconds; a rate needs its unit, as it may mean bits or bytes. Sizes and
rates are the model's: `scale` divides both.
"""
_KINDS = {int: "number", float: "number", str: "text", bool: "true or false"}
#: {kind of value: its units, as they are typed}, the largest first
_UNITS = {
    "size": {"GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0},
    "rate": {"GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3, "B/s": 1.0},
    "duration": {"s": 1.0, "ms": 1e-3},
}
_SHORT = {key: short for short, key in SHORT.items()}


def topology_page() -> str:
    """The whole page, in Markdown."""
    tables = (_section(name, kind) for name, kind in TABLES_OF_FILE.items())
    return "\n".join([_TOPOLOGY, _top_level(), *tables])


def _top_level() -> str:
    tables = {name.partition(".")[0] for name in TABLES_OF_FILE}
    words = "## Before all tables\n\nThese stand at the top of the file, `[settings]` is a table.\n"
    return f"{words}\n{_rows('', Topology, without=tables)}"


def _section(name: str, kind: type[Table]) -> str:
    words = inspect.cleandoc(kind.__doc__ or "").partition(": ")[2]
    text = "\n\n".join(plain(part) for part in words.split("\n\n"))
    return f"## `[{name}]`\n\n{text[:1].upper()}{text[1:]}\n\n{_rows(name, kind)}"


def _rows(name: str, kind: type[Table], without: set[str] | None = None) -> str:
    notes = meanings(kind)
    rows = [
        (*_key_and_value(name, field), plain(notes.get(field.name, "")))
        for field in msgspec.structs.fields(kind)
        if field.name not in (without or ())
    ]
    return table(("key", "value", "default", "meaning"), rows)


def _key_and_value(name: str, field: msgspec.structs.FieldInfo) -> Iterator[str]:
    short = _SHORT.get(f"{name}.{field.name}")
    yield code(field.name) + (f" (`--network {short}=`)" if short else "")
    kind, unit = _kind(field.type)
    yield plain(kind)
    yield _default(field, unit)


def _default(field: msgspec.structs.FieldInfo, unit: str) -> str:
    default = field.default
    if default is msgspec.NODEFAULT:
        return "needed" if field.default_factory is msgspec.NODEFAULT else ""
    if isinstance(default, bool):
        return code(str(default).lower())
    if isinstance(default, int | float):
        return code(_with_unit(default, unit) if unit else f"{default:g}")
    return code(default or "")


def _with_unit(value: float, kind: str) -> str:
    """A value as it is typed: "1.125GB"."""
    units = _UNITS[kind]
    name = next((name for name, size in units.items() if value >= size), list(units)[-1])
    return f"{value / units[name]:g}{name}"


def _kind(annotation: Any) -> tuple[str, str]:
    """A field's type in words, and its unit: ("rate", "rate"), ("number", "")."""
    parts = [part for part in get_args(annotation) if part is not NoneType]
    if hasattr(annotation, "__metadata__"):
        unit = annotation.__metadata__[0].title
        return {"duration": "time"}.get(unit, unit), unit
    if annotation in _KINDS:
        return _KINDS[annotation], ""
    if len(parts) == 1:
        return _kind(parts[0])
    if parts and all(isinstance(part, str) for part in parts):
        return " or ".join(f'"{part}"' for part in parts), ""
    return "table", ""
