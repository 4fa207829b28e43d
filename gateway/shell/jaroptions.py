"""The options of ``hadoop jar``: Hadoop's generic ones and those of its streaming jar."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from railyard.cluster.accepted import Accepted, idle, refused, used
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
_DEBUG = refused("the stderr of a failed attempt is shown")
_HELP = used("what can be given, and no job")
OPTIONS = Accepted(
    "hadoop jar: options",
    "option",
    {
        "-jobconf": used("the old name of -D"),
        "-files": used("files for the working directory, with commas between"),
        "-archives": used("archives, unpacked there"),
        "-cacheFile": used("a file for the working directory"),
        "-cacheArchive": used("an archive, unpacked there"),
        "-file": used("a local file for the working directory"),
        "-input": used("a file, a folder or a pattern"),
        "-output": used("the folder for the output"),
        "-mapper": used("the maps' command"),
        "-combiner": used("the command for some of a map's sorted lines"),
        "-reducer": used("the reduces' command; NONE, aggregate"),
        "-partitioner": used("HashPartitioner, KeyFieldBasedPartitioner"),
        "-inputformat": used("TextInputFormat, KeyValueTextInputFormat, NLineInputFormat"),
        "-outputformat": used("TextOutputFormat; others are refused"),
        "-numReduceTasks": used("reduces"),
        "-reduces": used("the same"),
        "-cmdenv": used("a variable of the programs' environment"),
        "-background": used("submit, and do not wait"),
        "-help": _HELP,
        "--help": _HELP,
        "-h": _HELP,
        "-info": _HELP,
        "-verbose": idle("of what Hadoop's client prints"),
        "-debug": idle("of what Hadoop's client keeps"),
        "-additionalconfspec": refused("give -conf"),
        "-inputreader": refused("records are lines"),
        "-io": refused("programs read and write text"),
        "-mapdebug": _DEBUG,
        "-reducedebug": _DEBUG,
        "-lazyOutput": refused("each reduce writes its file"),
    },
)
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
            raise UsageError(f"Missing required option: {missing[0]}")

    def _has(self, name: str) -> bool:
        return bool(self.inputs if name == "input" else self.request.get(name))

    @property
    def settings(self) -> dict[str, str]:
        """Those of -D, -jobconf and the files of -conf."""
        return self.generic.settings()

    def _take(self, option: str, rest: list[str]) -> None:
        if self.generic.take(option, rest[:1]):
            del rest[: takes_value(option)]
            return
        entry = OPTIONS.check(option)
        if entry is _HELP:
            self.help = True
        elif option == "-background":
            self.background = True
        elif option in _IDLE_FLAGS:
            pass
        elif not rest:
            raise UsageError(f"{option}: need a value")
        else:
            self._take_value(option, rest.pop(0))

    def _take_value(self, option: str, value: str) -> None:
        if option in _ONE:
            if _ONE[option] in self.request:
                raise UsageError(f"{option} {value[:80]}: is given twice: need it once")
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

    def _set(self, into: dict[str, str], text: str, option: str) -> None:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"{option} {text}: need NAME=VALUE")
        into[name.strip()] = value


def _commas(text: str) -> list[str]:
    """Parts between commas, but not those within braces: a{b,c},d is a{b,c} and d."""
    return [part for part in re.findall(r"(?:\{[^{}]*\}|[^,])+", text) if part]
