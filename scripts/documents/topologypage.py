"""The page of a topology's keys, from the classes of its tables."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import NoneType
from typing import Any, get_args

import msgspec

from railyard.cluster.accepted import meanings
from railyard.cluster.overrides import SHORT
from railyard.cluster.topologies.tables import TABLES_OF_FILE, Table
from railyard.cluster.topology import Topology
from railyard.scripts.documents.markdown import WRITTEN, code, plain, table

_HEAD = f"""\
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
    return "\n".join([_HEAD, _top_level(), *tables])


def _top_level() -> str:
    tables = {name.partition(".")[0] for name in TABLES_OF_FILE}
    words = "## Before all tables\n\nThese stand at the top of the file, `[settings]` is a table.\n"
    return f"{words}\n{_rows('', Topology, without=tables)}"


def _section(name: str, kind: type[Table]) -> str:
    words = inspect.cleandoc(kind.__doc__ or "").partition(": ")[2]
    text = "\n\n".join(plain(part) for part in words.split("\n\n"))
    return f"## `[{name}]`\n\n{text[:1].upper()}{text[1:]}\n\n{_rows(name, kind)}"


def _rows(name: str, kind: type[Table], without: set[str] | None = None) -> str:
    said = meanings(kind)
    rows = [
        (*_key_and_value(name, field), plain(said.get(field.name, "")))
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
