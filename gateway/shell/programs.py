"""What can be known of a job's programs before it is submitted: files of -files are local then."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from railyard.cluster.errors import UsageError
from railyard.cluster.programs import HEAD_BYTES, command_words, first_line_fault
from railyard.gateway.shell.addresses import STORES, local_path, uri_of
from railyard.gateway.shell.jaroptions import JarOptions, Shipped

_OPTIONS = {"-mapper": "mapper", "-combiner": "combiner", "-reducer": "reducer"}
#: Programs whose first argument is a file that they run, unless an option says otherwise.
_INTERPRETERS = re.compile(r"(python|pypy|perl|ruby|php|node|bash|dash|sh|Rscript)[0-9.]*")
_WORKING_FOLDER = "the working folder of each attempt"


def check_programs(options: JarOptions) -> None:
    """Raise ``UsageError`` for a program that no attempt could start."""
    shipped = {each.name: each for each in options.files}
    for option, key in _OPTIONS.items():
        try:
            words = command_words(options.request.get(key, ""))
        except ValueError:
            continue  # the gateway says what is wrong
        if words:
            _check_program(option, words[0], shipped)
            for script in _scripts(words):
                _check_file(option, script, shipped)


def _check_program(option: str, word: str, shipped: Mapping[str, Shipped]) -> None:
    if word in shipped or word.removeprefix("./") in shipped:
        _check_first_line(option, shipped[word.removeprefix("./")])
    elif "/" in word or not shutil.which(word):
        _check_file(option, word, shipped)


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
        right = f"-files {word} puts it into {_WORKING_FOLDER}{called}"
        raise UsageError(f"{option} {word}: was not shipped: {right}")


def _check_first_line(option: str, shipped: Shipped) -> None:
    if shipped.stored or shipped.unpacked or uri_of(shipped.path).scheme in STORES:
        return
    path = Path(local_path(shipped.path))
    if path.is_file():
        with open(path, "rb") as file:
            fault = first_line_fault(shipped.name, file.read(HEAD_BYTES))
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
