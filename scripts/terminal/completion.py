"""What completes a word that is being typed, from lists of words.  Pure; imports next to nothing.

Where the lists come from is in ``commands.lists.words``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

#: What a kind's values look like: in lists with commas, and then each KEY=VALUE after the name.
_LISTS = {"schedulers": "scheduler", "faults": "fault", "kinds of fault": "kind of fault"}
_WITH_KEYS = ("job", "workload", "topology")
#: Kinds for which a file does, too.
_OR_FILE = ("job", "topology", "workload")


class Item(NamedTuple):
    """A completion; "file" and "dir" ask the shell for its own."""

    value: str
    help: str = ""
    type: str = "plain"


@dataclass(frozen=True)
class TypedOption:
    """An option of a command."""

    names: tuple[str, ...]
    kind: str  #: of its value; "flag": it has none
    help: str = ""


@dataclass(frozen=True)
class TypedCommand:
    """A command, or a group of them."""

    commands: dict[str, str] = field(default_factory=dict)  #: {name: help}
    options: tuple[TypedOption, ...] = ()
    arguments: tuple[str, ...] = ()  #: kinds of the arguments; the last one's for all further ones


@dataclass(frozen=True)
class Words:
    """All that can be typed."""

    commands: dict[str, TypedCommand]  #: {"fs put": ...}, "" = railyard itself
    values: dict[str, dict[str, str]]  #: {kind: {value: help}}
    keys: dict[str, dict[str, str]]  #: {job, workload or "topology": {"size=": help}}


def complete(words: Words, typed: Iterable[str], incomplete: str) -> list[Item]:
    """What ``incomplete`` may become, after the words of a command line before it."""
    path, rest = _command(words, typed)
    command = words.commands[path]
    options = {name: option for option in command.options for name in option.names}
    awaited: TypedOption | None = None
    arguments: list[str] = []
    for word in rest:
        option = options.get(word)
        if awaited is not None:
            awaited = None
        elif option is not None and option.kind != "flag":
            awaited = option
        elif not word.startswith("-"):
            arguments.append(word)
    if awaited is not None:
        return list(_values(words, awaited.kind, incomplete, arguments))
    if incomplete.startswith("-"):
        return list(_options(words, options, incomplete, arguments))
    if command.commands:
        return [
            Item(name, text) for name, text in command.commands.items()
            if name.startswith(incomplete)
        ]  # fmt: skip
    if not command.arguments:
        return []
    kind = command.arguments[min(len(arguments), len(command.arguments) - 1)]
    return list(_values(words, kind, incomplete, arguments))


def _command(words: Words, typed: Iterable[str]) -> tuple[str, list[str]]:
    """(path of the command, the words after it)"""
    path: list[str] = []
    rest: list[str] = []
    for word in typed:
        if not rest and word in words.commands[" ".join(path)].commands:
            path.append(word)
        else:
            rest.append(word)
    return " ".join(path), rest


def _options(
    words: Words, options: dict[str, TypedOption], incomplete: str, arguments: list[str]
) -> Iterator[Item]:
    name, equals, value = incomplete.partition("=")
    if equals and name in options:
        for item in _values(words, options[name].kind, value, arguments):
            yield item._replace(value=f"{name}={item.value}")
        return
    for each, option in options.items():
        if each.startswith(incomplete):
            yield Item(each, option.help)


def _values(words: Words, kind: str, incomplete: str, arguments: list[str]) -> Iterator[Item]:
    if kind in ("file", "dir"):
        yield Item(incomplete, type=kind)
        return
    if kind.startswith("choice:"):
        yield from _matching(dict.fromkeys(kind[7:].split("|"), ""), incomplete)
        return
    if kind == "figure":
        kind = f"figure of {arguments[0]}" if arguments else ""
    before, comma, last = incomplete.rpartition(",")
    known = words.values.get(_LISTS.get(kind, kind), {})
    if kind in _LISTS:
        yield from _matching(known, last, before + comma)
    elif comma and kind in _WITH_KEYS:
        name = "topology" if kind == "topology" else incomplete.split(",")[0].split(":")[0]
        yield from _matching(words.keys.get(name, {}), last, before + comma)
    else:
        found = list(_matching(known, incomplete))
        yield from found
        if not found and kind in _OR_FILE:
            yield Item(incomplete, type="file")


def _matching(known: dict[str, str], incomplete: str, before: str = "") -> Iterator[Item]:
    for value, text in known.items():
        if value.startswith(incomplete):
            yield Item(before + value, text)
