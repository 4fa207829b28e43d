"""The options of ``hadoop jar``: Hadoop's generic ones and those of its streaming jar."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from railyard.cluster.errors import UsageError
from railyard.gateway.shell.generic import Generic, takes_value

#: {option: key of the request}: those with one value
_ONE = {
    "-output": "output",
    "-mapper": "mapper",
    "-combiner": "combiner",
    "-reducer": "reducer",
    "-partitioner": "partitioner",
    "-inputformat": "input_format",
    "-outputformat": "output_format",
    "-numReduceTasks": "reduces",
    "-reduces": "reduces",
}
#: {option: (whether it names archives, whether they are the block store's without a scheme)}
_FILES = {
    "-files": (False, False),
    "-archives": (True, False),
    "-cacheFile": (False, True),
    "-cacheArchive": (True, True),
}
_IDLE_FLAGS = ("-verbose", "-debug")
_REFUSED = {
    "-inputreader": "records are lines",
    "-io": "programs read and write text",
    "-mapdebug": "the stderr of a failed attempt is shown",
    "-reducedebug": "the stderr of a failed attempt is shown",
    "-lazyOutput": "each reduce writes its file",
}
USAGE = """Usage: hadoop jar hadoop-streaming.jar [generic options] [streaming options]
  -D k=v                    a setting of the job, such as mapreduce.job.reduces=4
  -files a,b#name           files for the working directory of each attempt
  -archives x.zip#name      archives, unpacked there
  -input PATH               a file, a folder or a pattern; may be repeated
  -output PATH              a folder, which must not exist
  -mapper COMMAND           gets lines, writes lines: key, tab, value
  -combiner COMMAND         gets some of a mapper's sorted lines
  -reducer COMMAND          gets sorted lines; NONE, aggregate
  -partitioner CLASS        HashPartitioner or KeyFieldBasedPartitioner
  -file PATH                a local file for the working directory
  -cmdenv k=v               a variable of the programs' environment
  -numReduceTasks N
  -inputformat CLASS        TextInputFormat
  -outputformat CLASS       TextOutputFormat
  -background               submit, and do not wait"""


class WrongOption(UsageError):
    """An option is unknown, lacks its value or is not supported."""


class Shipped(NamedTuple):
    """A file for the working directory of each attempt."""

    typed: str  #: PATH or PATH#NAME
    unpacked: bool = False
    stored: bool = False  #: a path without a scheme is the block store's

    @property
    def path(self) -> str:
        """What stands before #."""
        return self.typed.partition("#")[0]

    @property
    def name(self) -> str:
        """That of the working directory."""
        path, _, name = self.typed.partition("#")
        return name or path.rstrip("/").rpartition("/")[2]


class JarOptions:
    """What was typed: the request but for its files, and the files.

    ``generic`` takes Hadoop's generic options, which may stand anywhere.
    """

    def __init__(self, arguments: list[str], generic: Generic | None = None) -> None:
        self.request: dict[str, Any] = {}
        self.inputs: list[str] = []
        self.files: list[Shipped] = []
        self.generic = generic or Generic()
        self.environment: dict[str, str] = {}
        self.background = False
        self.help = False
        rest = list(arguments)
        while rest:
            self._take(rest.pop(0), rest)
        missing = [name for name in ("input", "output", "mapper") if not self._has(name)]
        if missing and not self.help:
            raise WrongOption(f"Missing required option: {missing[0]}")

    def _has(self, name: str) -> bool:
        return bool(self.inputs if name == "input" else self.request.get(name))

    def _take(self, option: str, rest: list[str]) -> None:
        if option in ("-help", "-info", "--help", "-h"):
            self.help = True
        elif option == "-background":
            self.background = True
        elif option in _IDLE_FLAGS:
            pass
        elif option in _REFUSED:
            raise WrongOption(f"{option} is not supported: {_REFUSED[option]}")
        elif self._take_generic(option, rest):
            pass
        elif not rest:
            raise WrongOption(
                f"{option}: need a value" if self._known(option) else _unknown(option)
            )
        else:
            self._take_value(option, rest.pop(0))

    def _known(self, option: str) -> bool:
        return option in (*_ONE, *_FILES, "-jobconf", "-cmdenv", "-input", "-file")

    def _take_generic(self, option: str, rest: list[str]) -> bool:
        taken = self.generic.take(option, rest[:1])
        if taken and takes_value(option):
            rest.pop(0)
        return taken

    @property
    def settings(self) -> dict[str, str]:
        """Those of -D, -jobconf and the files of -conf."""
        return self.generic.settings()

    def _take_value(self, option: str, value: str) -> None:
        if option in _ONE:
            self.request[_ONE[option]] = value
        elif option == "-jobconf":
            self.generic.set(value, f"{option} {value}")
        elif option == "-cmdenv":
            self._set(self.environment, value, option)
        elif option == "-input":
            self.inputs += _commas(value)
        elif option == "-file":
            self.files.append(Shipped(value))
        elif option in _FILES:
            self.files += [Shipped(each, *_FILES[option]) for each in _commas(value)]
        else:
            raise WrongOption(_unknown(option))

    def _set(self, into: dict[str, str], text: str, option: str) -> None:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise WrongOption(f"{option} {text}: need NAME=VALUE")
        into[name.strip()] = value


def _commas(text: str) -> list[str]:
    """Parts between commas, but not those within braces: a{b,c},d is a{b,c} and d."""
    return [part for part in re.findall(r"(?:\{[^{}]*\}|[^,])+", text) if part]


def _unknown(option: str) -> str:
    return f"Unrecognized option: {option}"
