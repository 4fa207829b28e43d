"""The page of what ``import railyard`` has, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import EnumMeta
from functools import cached_property
from textwrap import indent
from typing import Any

import railyard
from railyard.reference.markdown import WRITTEN

_HEAD = f"""\
# Python: what `railyard` has

{WRITTEN}
All of it is imported from the one name: `from railyard import Job, Recipe`. What is not listed
here may change without notice.
"""
#: {first folder of the module: heading}; the others come last
_HEADINGS = {
    "scripts": "Clusters, runs and results",
    "jobs": "Jobs",
    "resourcemanager": "Schedulers",
    "netemu": "Networks",
}
_OTHERS = "Other"
#: Longest signature in one line.
_LETTERS_MAX = 80
#: Types of the standard library and the like are shown by their own names.
_MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")


def python_page() -> str:
    """The whole page, in Markdown: each name with its signature, docstring and methods."""
    found: dict[str, list[str]] = {}
    for name in sorted(railyard.__all__, key=str.lower):
        thing = getattr(railyard, name)
        folder = getattr(thing, "__module__", "").removeprefix("railyard.").partition(".")[0]
        found.setdefault(_HEADINGS.get(folder, _OTHERS), []).append(_entry(name, thing))
    headings = [heading for heading in (*_HEADINGS.values(), _OTHERS) if heading in found]
    sections = ("\n".join([f"## {heading}\n", *found[heading]]) for heading in headings)
    return "\n".join([_HEAD, *sections])


def _entry(name: str, thing: Any) -> str:
    lines = [f"### {name}\n"]
    if isinstance(thing, EnumMeta):
        lines.append("".join(f"    {name}.{member}\n" for member in thing.__members__))
    elif callable(thing) and not getattr(thing, "_is_protocol", False):
        lines.append(indent(f"{name}{_signature(thing, wrapped=True)}", " " * 4) + "\n")
    lines += [f"`{getattr(thing, '__module__', 'railyard')}`\n", _docstring(thing)]
    if inspect.isclass(thing):
        lines += _methods(thing)
    return "\n".join(lines)


def _methods(kind: type[Any]) -> Iterator[str]:
    """Public methods and properties of a class and of its bases that are ours, a line each."""
    names = [name for name in dir(kind) if not name.startswith("_")]
    found = {name: inspect.getattr_static(kind, name) for name in names}
    listed = [line for name, it in found.items() if (line := _method(name, it))]
    if listed:
        yield "\n".join([*listed, ""])


def _method(name: str, it: Any) -> str:
    is_value = isinstance(it, property | cached_property)
    wrapped = it.fget if isinstance(it, property) else getattr(it, "func", it)
    function = getattr(wrapped, "__func__", wrapped)
    if not inspect.isfunction(function) or not function.__module__.startswith("railyard"):
        return ""
    call = name if is_value else f"{name}{_signature(function)}"
    first = (inspect.getdoc(function) or "").partition("\n\n")[0]
    return f"- `{call}`" + (f": {' '.join(first.split())}" if first else "")


def _signature(thing: Any, *, wrapped: bool = False) -> str:
    """A signature; a long one has a line for each parameter, if ``wrapped``."""
    try:
        signature = inspect.signature(thing)
    except (ValueError, TypeError):
        return "(...)"
    shown, star = [], False
    for one in signature.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        star = star or one.kind is one.VAR_POSITIONAL
        shown.append(_parameter(one))
    result = signature.return_annotation
    returned = "" if result in (signature.empty, None, "None") else f" -> {_annotation(result)}"
    if inspect.isclass(thing):
        returned = ""
    line = f"({', '.join(shown)}){returned}"
    if not wrapped or len(line) <= _LETTERS_MAX:
        return line
    return "\n".join(["(", *(f"    {one}," for one in shown), f"){returned}"])


def _parameter(one: inspect.Parameter) -> str:
    words = str(one.replace(annotation=one.empty, default=one.empty))
    if one.annotation is not one.empty:
        words += f": {_annotation(one.annotation)}"
    if one.default is not one.empty:
        words += f" = {_default(one.default)}"
    return words


def _default(value: Any) -> str:
    if isinstance(value, str | int | float | tuple) or value is None:
        return repr(value)
    return str(getattr(value, "__name__", "..."))


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _MODULES.sub("", text)


def _docstring(thing: Any) -> str:
    """Its docstring as Markdown: ``code`` is code there too."""
    return (inspect.getdoc(thing) or "").rstrip() + "\n"
