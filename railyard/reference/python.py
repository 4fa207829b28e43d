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
from railyard.reference.markdown import WRITTEN, first_words

_HEAD = f"""\
# Python: what `railyard` has

{WRITTEN}
All of it is imported from the one name: `from railyard import Job, Recipe`. What is not listed
here may change without notice.
"""
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
        call = f"{name}{_signature(thing)}"
        if len(call) > _LETTERS_MAX:  # a line for each parameter
            call = re.sub(r"(?<=\w\()|, (?=\*|\w+: )", lambda at: f"{at[0].strip()}\n    ", call)
        lines.append(indent(call, " " * 4) + "\n")
    lines += [f"`{getattr(thing, '__module__', 'railyard')}`\n"]
    lines += [(inspect.getdoc(thing) or "").rstrip() + "\n"]
    if inspect.isclass(thing) and (methods := list(_methods(thing))):
        lines.append("\n".join([*methods, ""]))
    return "\n".join(lines)


def _methods(kind: type[Any]) -> Iterator[str]:
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
        yield f"- `{name}{call}`" + (f": {first}" if first else "")


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
