"""The page of a run's folder: its files, their keys, types and units, from the classes of each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import msgspec

from railyard.api.results import Run
from railyard.cluster.acceptance import meanings
from railyard.netemu.record import CircuitUse
from railyard.reference.markdown import WRITTEN, code, codes, first_words, plain, table
from railyard.resourcemanager.interface.events import EVENTS as EVENT_CLASSES
from railyard.runs.folder import EVENTS, FILES, NETWORK, ORIGIN, PAGE, SUMMARY, TRACE
from railyard.runs.origin import Origin

_HEAD = f"""\
# Files of a run

{WRITTEN}
`railyard run --out DIR` and `railyard simulate --out DIR` write the same files, but for logs,
which only real processes have. `railyard compare --out DIR` writes such a folder for each run,
and beside them `{PAGE}` with what differs, `{ORIGIN}`, and `plots/` with the pictures for papers
(SVG and PNG). The end of a number's name is its unit: `_s` seconds, `_bytes` the model's bytes,
`_bytes_per_s` bytes a second, `_ms` milliseconds. Others are counts, or shares from 0 to 1.
`null` is what is not known. Times within a run are those of its own clock.
"""
_EVENTS = """\
The first line has `type` `run-started` and `config`: scheduler, settings, seed and topology.
Each other line is an event that the ResourceManager handled: `at_s`, `type`, the keys below, and
`led_to`, a checksum of its commands (missing if there were none). `railyard replay` sends them
to a fresh ResourceManager, `railyard explain` answers from them.
"""
_NETWORK = """\
The first line has `type` `links` and `capacity_bytes_per_s`: that of each link between racks,
`null` without limit. Lines with `type` `circuit` follow, one for each time that a coflow had a
circuit; if there were too many, one with `type` `circuits-left-out` and their `count`. The
others are samples: `at_s`, and `bytes`, the total that each link has carried, of links whose
total has changed.
"""
_TRACE = """\
Chrome's trace format, for [Perfetto](https://ui.perfetto.dev)
([how](../how-to/read-a-trace.md)). Times are microseconds. A process is a node, with a thread
for each slot; `network` has a thread for each coflow, `optical ports` one for each port that was
used, `links` the links' counters.
"""
#: Kinds of rows of a trace: category, phases of Chrome's format, what they are, their "args".
TRACE_ROWS: tuple[tuple[str, str, str, str], ...] = (
    (
        "attempt",
        "X",
        "an attempt in its slot, named after its job and stage",
        "`attempt`, `job`, `outcome`, `locality` (of a map: `node-local`, `rack-local` or "
        "`remote`), `phases_s`: seconds of each phase",
    ),
    (
        "phase",
        "X",
        "a part of it: `start` (until its process runs), `read` (from another node) or `shuffle` "
        "(until its last fetch), `compute`, `sort, write` (what is left)",
        "",
    ),
    ("reservation", "b, n, e", "an attempt without a slot, until it has one or ends", "`outcome`"),
    (
        "shuffle",
        "s, f",
        "an arrow for a fetch between two nodes, from a map with its data to the reader; at most "
        "20,000 of a run",
        "",
    ),
    ("coflow", "B, E", "a shuffle", ""),
    (
        "flow",
        "b, e",
        "a fetch between two nodes",
        "`bytes`, `outputs` (of maps), `outcome`",
    ),
    ("circuit", "X", "a coflow's circuit, at both its ports", "`coflow`, `from`, `to`, `phase`"),
    ("", "C", "counters: the rate of each link; circuits", "`Gbps`; `lit` and `dark`"),
    ("", "M", "the names of processes and threads", "`name`"),
)
#: Of ``Run``, what is not in the file.
_NOT_IN_SUMMARY = ("folder", "output", "summary")
_UNITS = {
    "bytes_per_s": "bytes/s",
    "bytes": "bytes",
    "bytes_max": "bytes",
    "ms_p99": "ms",
    "s": "s",
    "s_max": "s",
}
_PLAIN: dict[Any, str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "true or false",
    Path: "text",
    NoneType: "null",
}


def files_page() -> str:
    """The whole page, in Markdown."""
    files = {PAGE: "the page: where the run comes from, figures, pictures, jobs"} | FILES
    events = sorted(EVENT_CLASSES.kinds(), key=lambda kind: kind.tag())
    sections = [
        _HEAD,
        table(
            ("file", "what it is"), [(code(name), plain(words)) for name, words in files.items()]
        ),
        f"## {SUMMARY}\n",
        "[summary.json](../summary.md) says how its figures are to be read.\n",
        *_with_parts(Run),
        f"## {EVENTS}\n\n{_EVENTS}",
        *(f"### {code(kind.tag())}\n\n{_first_words(kind)}\n\n{_rows(kind)}" for kind in events),
        f"## {NETWORK}\n\n{_NETWORK}\n{_rows(CircuitUse)}",
        f"## {TRACE}\n\n{_TRACE}\n{_trace_rows()}",
        f"## {ORIGIN}\n\n{_first_words(Origin)}\n\n{_rows(Origin)}",
    ]
    return "\n".join(sections)


def _with_parts(kind: type) -> Iterator[str]:
    """The table of a class, then those of the classes that its fields have."""
    yield _rows(kind, _NOT_IN_SUMMARY)
    parts: dict[type, list[str]] = {}
    for name, of in get_type_hints(kind).items():
        for part in _structs(of):
            parts.setdefault(part, []).append(name)
    for part, names in parts.items():
        unit = _unit(names[0]) if len(names) == 1 else ""
        title = codes(names)
        yield f"### {title}\n\n{_first_words(part)}\n\n{_rows(part, unit=unit)}"


def _rows(kind: type, left_out: Sequence[str] = (), unit: str = "") -> str:
    """The table of a class; ``unit``: of numbers whose names have none."""
    notes, hints = meanings(kind), get_type_hints(kind)
    names = [name for name in _fields(kind) if name not in left_out]
    if not names:
        return ""
    return table(
        ("key", "type", "unit", "meaning"),
        [
            (
                code(name),
                plain(_words(hints[name])),
                _unit(name) or unit,
                plain(_as_json(notes.get(name, ""))),
            )
            for name in names
        ],
    )


def _fields(kind: Any) -> Sequence[str]:
    """Of a struct of msgspec's, a named tuple or a dataclass."""
    if issubclass(kind, msgspec.Struct):
        return [field.name for field in msgspec.structs.fields(kind)]
    return list(inspect.get_annotations(kind))


def _trace_rows() -> str:
    rows = [(code(cat), code(ph), words, args) for cat, ph, words, args in TRACE_ROWS]
    return table(("`cat`", "`ph`", "what it is", "`args`"), rows)


def _first_words(kind: type) -> str:
    return plain(_as_json(first_words(kind)))


def _as_json(words: str) -> str:
    return re.sub(r"\bNone\b", "`null`", words)


def _unit(name: str) -> str:
    return next((unit for end, unit in _UNITS.items() if f"_{name}".endswith(f"_{end}")), "")


def _structs(kind: Any) -> Iterator[type]:
    """The classes of ours that a type has."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for part in get_args(kind):
        yield from _structs(part)


def _words(kind: Any) -> str:
    """A type as JSON has it."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(map(_words, parts))
    if origin in (tuple, list):
        return f"list: {_words(parts[0])}"
    if origin in (dict, Mapping):
        return f"object: {_words(parts[1])}"
    if parts and all(isinstance(part, str) for part in parts):  # a Literal
        return " or ".join(f"`{part}`" for part in parts)
    if isinstance(kind, NewType):
        return _words(kind.__supertype__)
    return _PLAIN.get(kind, "object")
