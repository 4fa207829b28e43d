"""A command of the file system shell: its options, its arguments, and what it says that failed.

``Misused`` is for what can't be a command: it is said with how commands are used, and the exit
status is 255.  ``Wrong`` is for what can't be done: exit status 1.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from railyard.cluster.errors import UsageError
from railyard.gateway.shell.fs.options import check_option, options_of
from railyard.gateway.shell.paths import Found, Wrong, absolute, entries_of, find
from railyard.gateway.shell.web import Failed, Web

#: What is said of a path; of all other exceptions the message is.
TEXTS = {
    "FileNotFoundException": "No such file or directory",
    "PathIsNotEmptyDirectoryException": "Directory is not empty",
}
_UNITS = " KMGTPE"


class Misused(Exception):
    """A command with an option or an argument that it has not got, or without one that it needs."""


class Command:
    """A command with its options and arguments, and how it has gone so far."""

    def __init__(
        self, name: str, arguments: list[str], web: Web, *, takes_any: bool = False
    ) -> None:
        self.name = name
        self.web = web
        self.status = 0
        self.failures = 0
        self.options: set[str] = set()
        known = {} if name == "find" else options_of(name)  # its own stand behind the paths
        while arguments and arguments[0].startswith("-") and len(arguments[0]) > 1:
            option = arguments[0][1:]
            if option in known or takes_any:
                given = {option}
            elif option.startswith("-") or not set(option) <= known.keys():
                raise Misused(f"Illegal option {arguments[0]}")
            else:
                given = set(option)
            for each in () if takes_any else sorted(given):
                check_option(name, each)
            self.options |= given
            arguments = arguments[1:]
        self.arguments = arguments

    def has(self, *options: str) -> bool:
        """Whether one of these options was given."""
        return not self.options.isdisjoint(options)

    def need(self, least: int, most: int | None = None) -> None:
        """Raise ``Misused`` unless there are so many arguments."""
        if len(self.arguments) < least:
            raise Misused(f"Not enough arguments: expected {least} but got {len(self.arguments)}")
        if most is not None and len(self.arguments) > most:
            raise Misused(f"Too many arguments: expected {most} but got {len(self.arguments)}")

    def failed(self, why: str) -> None:
        """Say what is wrong, and go on."""
        print(f"{self.name}: {why}", file=sys.stderr)
        self.status = 1
        self.failures += 1

    def found(self, arguments: list[str]) -> Iterator[Found]:
        """What the arguments stand for; those that stand for nothing are said."""
        for argument in arguments:
            try:
                yield from find(self.web, argument)
            except (Wrong, UsageError) as wrong:
                self.failed(str(wrong))

    @contextlib.contextmanager
    def about(self, shown: str) -> Iterator[None]:
        """What fails within is said to be about a path."""
        try:
            yield
        except Failed as failed:
            text = TEXTS.get(failed.exception)
            self.failed(str(failed) if text is None else f"`{shown}': {text}")
        except OSError as error:
            self.failed(f"`{shown}': {error.strerror or error}")

    def path(self, typed: str) -> str:
        """Where a typed path is."""
        return absolute(typed, self.web.user, self.web.address)

    def uri(self, typed: str) -> str:
        """The whole address of a typed path, as errors about a missing parent have it."""
        return f"webhdfs://{self.web.address}{self.path(typed)}"


def size(count: int, human: bool) -> str:
    """Bytes, or in units of 1024 as -h has them."""
    if not human or count < 1024:
        return str(count)
    number, unit = float(count), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}"


def entries(command: Command, folder: Found) -> list[Found]:
    """The entries of a folder, by name."""
    return [folder.below(s["pathSuffix"], s) for s in entries_of(command.web, folder.path)]


def below(command: Command, folder: Found) -> list[Found]:
    """All that is below a folder: each folder before its entries."""
    everything = []
    for entry in entries(command, folder):
        everything.append(entry)
        if entry.is_folder:
            everything += below(command, entry)
    return everything
