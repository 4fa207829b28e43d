"""``hadoop jar``: a streaming job is submitted to the cluster and followed to its end.

What it prints are the lines of Hadoop's log, on standard error, by which programs follow jobs.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from railyard.cluster.acceptance import Accepted, Effect, idle, refused, used
from railyard.cluster.errors import UsageError
from railyard.cluster.fileheads import PROGRAM_HEAD_BYTES, command_words, first_line_fault
from railyard.gateway.shell.admin import counter_lines
from railyard.gateway.shell.generic import Generic, name_and_value
from railyard.gateway.shell.paths import STORES, absolute, local_path, status_of, uri_of
from railyard.gateway.shell.web import Failed, NoGateway, Web

#: {option: key of the request}: those with one value
_ONE = {
    **{f"-{key}": key for key in ("output", "mapper", "combiner", "reducer", "partitioner")},
    "-inputformat": "input_format",
    "-outputformat": "output_format",
    "-numReduceTasks": "reduces",
    "-reduces": "reduces",
}
#: {option: (whether it names archives, whether they are the block store's without a scheme)}
_FILES = {
    "-file": (False, False),
    "-files": (False, False),
    "-archives": (True, False),
    "-cacheFile": (False, True),
    "-cacheArchive": (True, True),
}
_FLAGS = ("-background", "-verbose", "-debug")
_DEBUG = refused("the stderr of a failed attempt is shown")
_HELP = used("what can be given, and no job")
_USAGE = """Usage: hadoop jar hadoop-streaming.jar [generic options] [streaming options]
  A mapper gets lines, and writes lines: key, tab, value.  A reducer gets them sorted.  The folder
  for the output must not exist; -input may be repeated.
  -D k=v             a setting of the job, such as mapreduce.job.reduces=4"""
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
        **dict.fromkeys(("-help", "--help", "-h", "-info"), _HELP),
        "-verbose": idle("of what Hadoop's client prints"),
        "-debug": idle("of what Hadoop's client keeps"),
        "-additionalconfspec": refused("give -conf"),
        "-inputreader": refused("records are lines"),
        "-io": refused("programs read and write text"),
        **dict.fromkeys(("-mapdebug", "-reducedebug"), _DEBUG),
        "-lazyOutput": refused("each reduce writes its file"),
    },
)
#: Programs whose first argument is a file that they run, unless an option says otherwise.
_INTERPRETERS = re.compile(r"(python|pypy|perl|ruby|php|node|bash|dash|sh|Rscript)[0-9.]*")
_ASK_EVERY_S = 0.25
#: For how long a job is waited for whose cluster does not answer: its gateway may start anew.
_PATIENCE_S = 60.0
_STAGING = "/tmp/hadoop-yarn/staging"


class Shipped(NamedTuple):
    """A file for the working directory of each attempt."""

    typed: str  #: PATH or PATH#NAME
    unpacked: bool = False
    stored: bool = False  #: a path without a scheme is the block store's

    @property
    def path(self) -> str:
        return self.typed.partition("#")[0]

    @property
    def name(self) -> str:
        """In the working directory."""
        path, _, name = self.typed.partition("#")
        return name or path.rstrip("/").rpartition("/")[2]


class JarOptions:
    """What was typed: the request, its files, and generic options, which may stand anywhere."""

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
            if count := self.generic.take(rest):
                del rest[:count]
            else:
                self._take(rest.pop(0), rest)
        given = self.request | {"input": self.inputs}
        missing = [name for name in ("input", "output", "mapper") if not given.get(name)]
        if missing and not self.help:
            raise UsageError(f"Missing required option: {missing[0]}")

    def _take(self, option: str, rest: list[str]) -> None:
        if OPTIONS.check(option) is _HELP:
            self.help = True
            return
        if option in _FLAGS:
            self.background |= option == "-background"
            return
        if not rest:
            raise UsageError(f"{option}: need a value")
        value = rest.pop(0)
        if option in _ONE:
            if _ONE[option] in self.request:
                raise UsageError(f"{option} {value[:80]}: is given twice: need it once")
            self.request[_ONE[option]] = value
        elif option == "-jobconf":
            self.generic.set(value, f"{option} {value}")
        elif option == "-cmdenv":
            name, text = name_and_value(value, f"{option} {value}")
            self.environment[name] = text
        elif option == "-input":
            self.inputs += _commas(value)
        else:
            several = [value] if option == "-file" else _commas(value)
            self.files += [Shipped(each, *_FILES[option]) for each in several]


def usage() -> str:
    """How jobs are given, with the options that are used."""
    lines = [
        f"  {name:<18} {entry.note}"
        for name, entry in OPTIONS.entries.items()
        if entry.effect is Effect.USED
    ]
    return "\n".join([_USAGE, *lines])


def _commas(text: str) -> list[str]:
    """Parts between commas, but not those within braces: a{b,c},d is a{b,c} and d."""
    return [part for part in re.findall(r"(?:\{[^{}]*\}|[^,])+", text) if part]


# What can be known of programs before a job is submitted: files of -files are local then ----------
def check_programs(options: JarOptions) -> None:
    """Raise ``UsageError`` for a program that no attempt could start."""
    shipped = {each.name: each for each in options.files}
    for option in ("-mapper", "-combiner", "-reducer"):
        try:
            words = command_words(options.request.get(_ONE[option], ""))
        except ValueError:
            continue  # the gateway says what is wrong
        if not words:
            continue
        program = shipped.get(words[0].removeprefix("./"))
        if program is not None:
            _check_first_line(option, program)
        elif "/" in words[0] or not shutil.which(words[0]):
            _check_file(option, words[0], shipped)
        for script in _scripts(words):
            _check_file(option, script, shipped)


def _check_file(option: str, word: str, shipped: Mapping[str, Shipped]) -> None:
    """A file that a program needs: it has to be among the shipped ones, whose folder it is in."""
    names = [name for name in word.split("/") if name not in ("", ".")]
    if word.startswith("/") or ".." in names or not names or names[0] in shipped:
        return
    last = names[-1]
    if len(names) > 1 and last in shipped:
        why = "files of -files have no other folder there"
        raise UsageError(f"{option} {word}: need {last}, in the working folder: {why}")
    if Path(word).is_file():
        called = f", where it is {last}" if len(names) > 1 else ""
        right = f"-files {word} puts it into the working folder of each attempt{called}"
        raise UsageError(f"{option} {word}: was not shipped: {right}")


def _check_first_line(option: str, shipped: Shipped) -> None:
    if shipped.stored or shipped.unpacked or uri_of(shipped.path).scheme in STORES:
        return
    path = Path(local_path(shipped.path))
    if path.is_file():
        with open(path, "rb") as file:
            fault = first_line_fault(shipped.name, file.read(PROGRAM_HEAD_BYTES))
        if fault:
            raise UsageError(f"{option} {shipped.name}: {fault}")


def _scripts(words: tuple[str, ...]) -> Iterator[str]:
    """The file that an interpreter runs; none if its options may say what it runs."""
    if not _INTERPRETERS.fullmatch(words[0].rpartition("/")[2]):
        return
    for word in words[1:]:
        if not word.startswith("-"):
            yield word
            return
        if not re.fullmatch(r"-[uBEsSOxvw]+", word):
            return


# The job ----------------------------------------------------------------------------------------
def run(arguments: list[str], generic: Generic, user: str) -> int:
    """Carry out ``hadoop jar X.jar ...``; returns the exit status."""
    if not arguments or arguments[0].startswith("-"):
        print(usage(), file=sys.stderr)
        return 1
    try:
        options = JarOptions(arguments[1:], generic)
        if options.help:
            print(usage())
            return 0
        check_programs(options)
        return _Submission(options, generic.connect(user)).run()
    except (UsageError, OSError) as wrong:
        _log("ERROR", "streaming.StreamJob", str(wrong))
    except Failed as failed:
        _log("ERROR", "streaming.StreamJob", f"Error Launching job : {failed}")
    print("Streaming Command Failed!", file=sys.stderr)
    return 1


class _Submission:
    """A job on its way in, with the local files that are put into the block store for it."""

    def __init__(self, options: JarOptions, web: Web) -> None:
        self._options = options
        self._web = web
        name = f"{int(time.time() * 1000)}-{os.getpid()}"
        self._staging = f"{_STAGING}/{web.user}/.staging/{name}"
        self._staged = 0  #: files, each in a folder of its own

    def run(self) -> int:
        try:
            accepted = self._submit()
            if self._options.background:
                self._staged = 0  # its attempts need them
                _log("INFO", "streaming.StreamJob", f"Job {accepted['job']} runs in the background")
                return 0
            return follow(accepted, self._web)
        finally:
            if self._staged:
                self._web.ask("DELETE", self._staging, "DELETE", recursive="true")

    def _submit(self) -> dict[str, Any]:
        options = self._options
        files = [self._file(shipped) for shipped in options.files]
        request = options.request | {
            "user": self._web.user,
            "input": options.inputs,
            "files": files,
            "settings": options.generic.settings(),
            "environment": options.environment,
        }
        accepted = self._web.rest("POST", "/railyard/streaming", request)
        for logger, message in (
            ("mapred.FileInputFormat", f"Total input files to process : {accepted['splits']}"),
            ("impl.YarnClientImpl", f"Submitted application {accepted['application']}"),
            ("mapreduce.Job", f"The url to track the job: {accepted['tracking']}"),
            ("mapreduce.Job", f"Running job: {accepted['job']}"),
        ):
            _log("INFO", logger, message)
        return accepted

    def _file(self, shipped: Shipped) -> dict[str, Any]:
        """A file of the block store if its name or its option says so, else a local one, put."""
        scheme = uri_of(shipped.path).scheme
        if scheme not in STORES and not shipped.stored:
            local = Path(local_path(shipped.path))
            if not local.exists():
                raise UsageError(f"File {local} does not exist, or is not readable.")
            self._staged += 1
            path = f"{self._staging}/{self._staged}/{local.resolve().name}"
            self._put(local, path)
        else:
            path = absolute(shipped.path, self._web.user, self._web.address)
            if not status_of(self._web, path):
                raise UsageError(f"File {shipped.path} does not exist in the block store.")
        name = shipped.name or posixpath.basename(path)
        return {"path": path, "name": name, "unpacked": shipped.unpacked}

    def _put(self, local: Path, path: str) -> None:
        if local.is_dir():
            self._web.ask("PUT", path, "MKDIRS")
            for each in sorted(local.iterdir()):
                self._put(each, posixpath.join(path, each.name))
            return
        with open(local, "rb") as file:
            self._web.write(path, file, overwrite="true")


def follow(accepted: dict[str, Any], web: Web) -> int:
    """Say how far a job is until it has ended; returns the exit status."""
    reported: set[str] = set()
    shown = ""
    while True:
        job = _figures_of(accepted["job"], web)
        for failure in job["failures"]:
            if failure["attempt"] not in reported:
                reported.add(failure["attempt"])
                _show_failure(failure)
        shares = int(100 * job["mapProgress"]), int(100 * job["reduceProgress"])
        progress = " map {}% reduce {}%".format(*shares)
        if progress != shown and job["state"] in ("RUNNING", "SUCCEEDED"):
            shown = progress
            _log("INFO", "mapreduce.Job", progress)
        if job["state"] != "RUNNING":
            return _ended(accepted, job)
        time.sleep(_ASK_EVERY_S)


def _figures_of(name: str, web: Web) -> dict[str, Any]:
    """How a job is; while its cluster does not answer, that is waited for."""
    begun_s = time.monotonic()
    while True:
        try:
            return web.rest("GET", f"/railyard/jobs/{name}")
        except (Failed, NoGateway) as error:
            passes = isinstance(error, NoGateway) or error.exception == "RetriableException"
            if not passes or time.monotonic() - begun_s > _PATIENCE_S:
                raise
        time.sleep(_ASK_EVERY_S)


def _ended(accepted: dict[str, Any], job: dict[str, Any]) -> int:
    ok = job["state"] == "SUCCEEDED"
    failed = f"failed with state {job['state']} due to: {job['reason']}"
    how = "completed successfully" if ok else failed
    _log("INFO", "mapreduce.Job", f"Job {accepted['job']} {how}")
    _log("INFO", "mapreduce.Job", "\n".join(counter_lines(job["counters"])))
    if not ok:
        _log("ERROR", "streaming.StreamJob", "Job not successful!")
        print("Streaming Command Failed!", file=sys.stderr)
        return 1
    _log("INFO", "streaming.StreamJob", f"Output directory: {accepted['output']}")
    return 0


def _show_failure(failure: dict[str, Any]) -> None:
    _log("INFO", "mapreduce.Job", f"Task Id : {failure['attempt']}, Status : FAILED")
    lines = [f"Error: {failure['reason']} (on {failure['node']})"]
    print("\n".join([*lines, *failure["stderr"].splitlines()]), file=sys.stderr)


def _log(level: str, logger: str, message: str) -> None:
    """A line as Hadoop's log4j writes it."""
    when = time.strftime("%y/%m/%d %H:%M:%S")
    print(f"{when} {level} {logger}: {message}", file=sys.stderr, flush=True)
