"""The options of ``hadoop jar``: Hadoop's generic ones and those of its streaming jar."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from railyard.cluster.accepted import Accepted, idle, refused, used
from railyard.cluster.errors import UsageError

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
#: {option: whether it names archives}: files, with commas or one by one
_FILES = {"-files": False, "-archives": True, "-cacheFile": False, "-cacheArchive": True}
_IDLE_FLAGS = ("-verbose", "-debug")
_DEBUG = refused("the stderr of a failed attempt is shown")
_HELP = used("what can be given, and no job")
OPTIONS = Accepted(
    "hadoop jar: options",
    "option",
    {
        "-D": used("a setting"),
        "-jobconf": used("the old name of -D"),
        "-conf": used("a file of settings; those of -D win"),
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
        "-fs": idle("the cluster is the one that the command finds"),
        "-dfs": idle("the cluster is the one that the command finds"),
        "-jt": idle("the cluster is the one that the command finds"),
        "--config": idle("the cluster is the one that the command finds"),
        "-additionalconfspec": refused("give -conf"),
        "-libjars": refused("Java classes are not run"),
        "-inputreader": refused("records are lines"),
        "-io": refused("programs read and write text"),
        "-mapdebug": _DEBUG,
        "-reducedebug": _DEBUG,
        "-lazyOutput": refused("each reduce writes its file"),
        "-tokenCacheFile": refused("there are no delegation tokens"),
    },
)
_PROPERTY = re.compile(
    r"<property>.*?<name>\s*(.*?)\s*</name>.*?<value>(.*?)</value>.*?</property>", re.DOTALL
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


class WrongOption(Exception):
    """An option is unknown, lacks its value or is not supported."""


class JarOptions:
    """What was typed: the request but for its files, and the files."""

    def __init__(self, arguments: list[str]) -> None:
        self.request: dict[str, Any] = {}
        self.inputs: list[str] = []
        self.files: list[tuple[str, bool]] = []  #: as typed, and whether it is an archive
        self.local: list[str] = []  #: of -file
        self.settings: dict[str, str] = {}
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
        if option.startswith("-D") and option != "-D":
            self._set(self.settings, option[2:], option)
            return
        try:
            entry = OPTIONS.check(option)
        except UsageError as error:
            raise WrongOption(str(error)) from None
        if entry is _HELP:
            self.help = True
        elif option == "-background":
            self.background = True
        elif option in _IDLE_FLAGS:
            pass
        elif not rest:
            raise WrongOption(f"{option}: need a value")
        else:
            self._take_value(option, rest.pop(0))

    def _take_value(self, option: str, value: str) -> None:
        if option in _ONE:
            if _ONE[option] in self.request:
                raise WrongOption(f"{option} {value[:80]}: is given twice: need it once")
            self.request[_ONE[option]] = value
        elif option in ("-D", "-jobconf"):
            self._set(self.settings, value, option)
        elif option == "-cmdenv":
            self._set(self.environment, value, option)
        elif option == "-input":
            self.inputs += _commas(value)
        elif option == "-file":
            self.local.append(value)
        elif option in _FILES:
            self.files += [(each, _FILES[option]) for each in _commas(value)]
        elif option == "-conf":
            text = Path(value).read_text(encoding="utf-8")
            self.settings = dict(_PROPERTY.findall(text)) | self.settings

    def _set(self, into: dict[str, str], text: str, option: str) -> None:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise WrongOption(f"{option} {text}: need NAME=VALUE")
        into[name.strip()] = value


def _commas(text: str) -> list[str]:
    """Parts between commas, but not those within braces: a{b,c},d is a{b,c} and d."""
    return [part for part in re.findall(r"(?:\{[^{}]*\}|[^,])+", text) if part]
