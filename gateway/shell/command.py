"""What the commands of ``hadoop fs`` have in common: options, arguments, errors.

Not here: what a command does (``names``, ``transfers``).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from railyard.cluster.acceptance import Accepted, Entry, idle, refused, used
from railyard.cluster.errors import UsageError
from railyard.gateway.shell.paths import Found, Wrong, absolute, find
from railyard.gateway.shell.web import Failed, Web

#: What is said of a path; of all other exceptions the message is.
TEXTS = {
    "FileNotFoundException": "No such file or directory",
    "PathIsNotEmptyDirectoryException": "Directory is not empty",
}
#: {command: the one whose options it has}
_ALIASES = {
    "lsr": "ls",
    "text": "cat",
    "copyToLocal": "get",
    "copyFromLocal": "put",
    "moveFromLocal": "put",
    "chown": "chmod",
    "chgrp": "chmod",
}
#: (option, the commands that have it, what it does)
_ROWS: tuple[tuple[str, str, Entry], ...] = (
    ("-C", "ls", used("paths alone")),
    ("-R", "ls getfacl rm chmod", used("folders and all that is in them")),
    ("-S", "ls", used("the largest first")),
    ("-d", "ls", used("a folder itself, not its entries")),
    ("-e", "ls", refused("there is no erasure coding")),
    ("-h", "ls du df count", used("sizes in units of 1024")),
    ("-q", "ls", idle("all letters of names can be printed")),
    ("-r", "ls", used("the other way round")),
    ("-t", "ls", used("the latest first")),
    ("-u", "ls", used("times of access")),
    ("-a", "find", idle("all conditions hold anyway")),
    ("-and", "find", idle("all conditions hold anyway")),
    ("-iname", "find", used("names that match, in capitals or not")),
    ("-name", "find", used("names that match")),
    ("-print", "find", idle("names are printed anyway")),
    ("-print0", "find", used("a null byte after each name")),
    ("-s", "du", used("one sum for each path")),
    ("-v", "du count", used("a heading")),
    ("-x", "du count", idle("there are no snapshots")),
    ("-q", "count", used("quotas, too")),
    ("-u", "count", used("quotas alone")),
    ("-d", "test", used("whether it is a folder")),
    ("-e", "test", used("whether it is there")),
    ("-f", "test", used("whether it is a file")),
    ("-r", "test", used("whether it is there: all may read it")),
    ("-s", "test", used("whether it is not empty")),
    ("-w", "test", used("whether it is there: all may write it")),
    ("-z", "test", used("whether it is an empty file")),
    ("-v", "checksum", refused("-stat %o has the size of blocks")),
    ("-ignoreCrc", "cat get", idle("what is read is verified, always")),
    ("-f", "tail", refused("a file is there once it is whole")),
    ("-nl", "getmerge", used("a line end after each file")),
    ("-skip-empty-file", "getmerge", used("no line end for an empty file")),
    ("-crc", "get", refused("no .crc files are written")),
    ("-f", "get put cp", used("what is there is replaced")),
    ("-p", "get", used("times and permission are kept")),
    ("-d", "put cp", idle("a file is there once it is whole, in any case")),
    ("-l", "put", idle("all blocks are on disks")),
    ("-p", "put cp", used("times, owner, group and permission are kept")),
    ("-n", "appendToFile", idle("how a file is cut into blocks is the store's affair")),
    ("-c", "touch", used("no file is made")),
    ("-p", "mkdir", used("with its parents, and it may be there")),
    ("-f", "rm", used("what is not there is no error")),
    ("-r", "rm", used("folders and all that is in them")),
    ("-safely", "rm", refused("nothing is asked before a folder is removed")),
    ("-skipTrash", "rm", idle("there is no trash")),
    ("--ignore-fail-on-non-empty", "rmdir", used("a folder with entries is no error")),
    ("-R", "setrep", idle("it holds for all that is below a folder anyway")),
    ("-w", "setrep", used("waits until there are as many replicas")),
    ("-w", "truncate", idle("it is done when the command ends")),
    ("-immediate", "expunge", idle("there is no trash")),
)
OPTIONS = Accepted(
    "hadoop fs: options of its commands",
    "option of hadoop fs",
    {f"{name} {option}": entry for option, names, entry in _ROWS for name in names.split()},
)


def options_of(command: str) -> dict[str, Entry]:
    """{option without its dash: what it does} of a command."""
    start = f"{_ALIASES.get(command, command)} -"
    return {
        name.removeprefix(start): entry
        for name, entry in OPTIONS.entries.items()
        if name.startswith(start)
    }


# Commands ----------------------------------------------------------------------------------------
class Misused(Exception):
    """A command with an option or an argument that it has not got, or without one that it needs.

    It is said with how commands are used, and the exit status is 255; of ``Wrong`` it is 1.
    """


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
                OPTIONS.check(f"{_ALIASES.get(name, name)} -{each}", f"-{name} -{each}")
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

    # Paths ---------------------------------------------------------------------------------------
    def path(self, typed: str) -> str:
        return absolute(typed, self.web.user, self.web.address)

    def at(self, typed: str) -> Found:
        """What is, or will be, at a typed path."""
        return Found(self.web, typed, self.path(typed))

    def found(self, arguments: list[str], *, missing_ok: bool = False) -> Iterator[Found]:
        """What the arguments stand for; those that stand for nothing are said."""
        for argument in arguments:
            try:
                yield from find(self.web, argument)
            except (Wrong, UsageError) as wrong:
                if not (missing_ok and isinstance(wrong, Wrong)):
                    self.failed(str(wrong))

    def files(self, arguments: list[str]) -> Iterator[Found]:
        """The same of commands that take files: folders are said, too."""
        for found in self.found(arguments):
            if found.is_folder:
                self.failed(f"`{found.shown}': Is a directory")
            else:
                yield found

    # What fails ----------------------------------------------------------------------------------
    def failed(self, why: str) -> None:
        """Say what is wrong, and go on."""
        print(f"{self.name}: {why}", file=sys.stderr)
        self.status = 1
        self.failures += 1

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

    def ask(self, found: Found, verb: str, op: str, **parameters: object) -> dict[str, Any] | None:
        """The answer to a request about a path; None if it failed, which is said."""
        with self.about(found.shown):
            return self.web.ask(verb, found.path, op, **parameters)
        return None
