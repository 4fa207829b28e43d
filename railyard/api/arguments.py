"""Arguments of functions that people call, as the requests that commands make of their options.

Mistakes raise ``UsageError``, with one line, as on a command line.

A job of one's own is a class, an object of it, a file or a name.  A class in a module is that
module's file.  One that was defined in a notebook, or in the script that runs, cannot be: running
it once more would run the whole study.  Its source is written to a file of its own, with what it
uses of the names around it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import os
import re
import symtable
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from railyard.cluster.errors import UsageError, printable, require, shown_value
from railyard.cluster.inputfile import build
from railyard.cluster.units import parse_size
from railyard.jobs.model import Job, params_of
from railyard.runs.requests import RunRequest
from railyard.terminal.notices import notices_to
from railyard.terminal.options import TextPairs

#: A job: a name with options ("terasort,size=2GB,times=3"), a file, or a class or object of one.
AnyJob = str | Path | Job | type[Job]
#: A file, folder or pattern, several, or {name of an input: any of these}; "dfs:/PATH" is of the
#: block store.
AnyInput = str | Path | Iterable[str | Path] | Mapping[str, str | Path | Iterable[str | Path]]

_COUNT_MAX = 2**63 - 1


class Advice(UserWarning):
    """What a command would say on standard error: a setting without effect, for instance."""


@contextmanager
def notices_as_warnings(*, progress: bool) -> Iterator[None]:
    """A call from Python: it prints nothing, but progress if that is wanted.

    Notices become warnings at the place of the call.
    """
    notices: list[str] = []
    try:
        with notices_to(notices.append, wants_progress=progress):
            yield
    finally:
        warn(notices, stacklevel=5)  # beyond contextlib and our own function


def warn(notices: Iterable[str], stacklevel: int) -> None:
    """Turn notices into warnings, each once."""
    for words in dict.fromkeys(notices):
        warnings.warn(words, Advice, stacklevel=stacklevel)


def request_of(words: Sequence[str], **given: Any) -> RunRequest:
    """The request of a call for these jobs, of its arguments; None is what was not said.

    Raises ``UsageError`` for values that make no sense.
    """
    fields = {}
    for name, value in given.items():
        if value is not None:
            field, read = _READ.get(name, (name, None))
            fields[field] = value if read is None else read(name, value)
    return RunRequest(words=tuple(words), **fields)


def options_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call, by its ``locals()`` before it has others: for ``request_of``."""
    return {name: value for name, value in call.items() if name not in _NO_OPTIONS}


#: Arguments that requests do not have, or not so.
_NO_OPTIONS = ("self", "jobs", "progress", "http", "clock")


def names(_: str, given: str | Iterable[str]) -> tuple[str, ...]:
    """Names of schedulers; text has commas between them."""
    every = given.split(",") if isinstance(given, str) else given
    return tuple(name.strip() for name in every)


def text_pairs(_: str, settings: Mapping[str, Any]) -> TextPairs:
    """Settings whose values are read as in a topology's file: {"uplink": "1Gbps", "ocs": "off"}."""
    return tuple((key, _text(value)) for key, value in settings.items())


def _behaviour(name: str, settings: Mapping[str, Any]) -> Any:
    from railyard.simulator.behaviour import Behaviour

    return build(dict(settings), Behaviour, name) if settings else None


def _inputs(_: str, given: AnyInput) -> tuple[str, ...]:
    """Inputs as ``--input`` has them: "FILE", or "NAME=FILE"."""
    if isinstance(given, Mapping):
        return tuple(f"{name}={each}" for name, files in given.items() for each in _each(files))
    return tuple(_each(given))


def _each(files: str | Path | Iterable[str | Path]) -> list[str]:
    return [str(files)] if isinstance(files, str | Path) else [str(each) for each in files]


def _count(name: str, count: int, least: int = 1) -> int:
    is_number = isinstance(count, int) and not isinstance(count, bool)
    right = f"a whole number from {least} on"
    require(is_number and least <= count <= _COUNT_MAX, name, count, right)
    return count


def seeds_of(seeds: int | range | None) -> int | range | None:
    """A number of seeds, or which they are; ``UsageError`` for anything else."""
    if not isinstance(seeds, range):
        return None if seeds is None else _count("seeds", seeds)
    require(seeds.step == 1 and 0 < seeds.start < seeds.stop, "seeds", seeds, "as range(4, 11)")
    return seeds


def new_folder(name: str, out: str | Path) -> Path:
    """The path of a folder that is to be made; ``UsageError`` if it cannot be."""
    path = Path(out)
    if path.exists() or not path.absolute().parent.is_dir():
        raise UsageError(f"{name} = {out}: need a new folder in a folder that exists")
    if not os.access(path.absolute().parent, os.W_OK):
        raise UsageError(f"{name} = {out}: need a place that you may write to")
    return path


#: argument -> (field of the request, how its value is read); others are fields as they are
_READ: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "scheduler": ("schedulers", lambda _, name: (name,)),
    "flow_scheduler": ("flow_schedulers", lambda _, name: (name,)),
    "schedulers": ("schedulers", names),
    "flow_schedulers": ("flow_schedulers", names),
    "settings": ("scheduler_options", lambda _, settings: tuple(settings.items())),
    "topology": ("topology", lambda _, name: str(name)),
    "network": ("network", text_pairs),
    "params": ("params", text_pairs),
    "inputs": ("inputs", _inputs),
    "size": ("size_bytes", lambda _, size: parse_size(size)),
    "reduces": ("reduces", _count),
    "first": ("first", _count),
    "seed": ("seed", partial(_count, least=0)),
    "seeds": ("seeds", _count),
    "behaviour": ("behaviour", _behaviour),
    "out": ("results", new_folder),
    "get": ("fetch_to", new_folder),
}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class JobWords(NamedTuple):
    """The words for jobs, as commands take them."""

    words: tuple[str, ...]
    folder: Path  #: of the files that were written for classes

    def plain(self, text: str) -> str:
        """Text without the paths of these files, which nobody knows."""
        return text.replace(f"{self.folder}/", "")


@contextmanager
def job_words(jobs: Sequence[AnyJob]) -> Iterator[JobWords]:
    """The words for jobs while the block runs; ``UsageError`` for what is no job."""
    if not jobs:
        raise UsageError("jobs: need at least one, such as terasort")
    with tempfile.TemporaryDirectory(prefix="railyard-") as folder:
        yield JobWords(tuple(job_word(job, Path(folder)) for job in jobs), Path(folder))


def job_word(job: AnyJob, folder: Path) -> str:
    """The word for a job with its parameters; ``folder`` is for files that need to be written."""
    name, params = name_and_params(job, folder)
    for key, value in params.items():
        if "," in value:
            right = "need a default in the class, or a jobs.toml"
            raise UsageError(f"{name}: {key} = {shown_value(value)}: {right}")
    return ",".join([name, *(f"param.{key}={value}" for key, value in params.items())])


def name_and_params(job: AnyJob, folder: Path) -> tuple[str, dict[str, str]]:
    """A job's name or file, and those of its parameters that are not its class's defaults."""
    if isinstance(job, str | Path):
        return str(job), {}
    kind = job if isinstance(job, type) else type(job)
    if not issubclass(kind, Job) or kind is Job:
        raise UsageError(f"job {shown_value(job)}: need a name, a file, or a class of railyard.Job")
    params = {} if isinstance(job, type) else _params(job)
    return f"{_file_of(kind, folder)}:{kind.__name__}", params


def _params(job: Job) -> dict[str, str]:
    params = {}
    for name, param in params_of(type(job)).items():
        value = getattr(job, name)
        if param.required or value != param.default:
            if isinstance(value, bytes | list):
                right = "need a default in the class, as bytes are no text"
                raise UsageError(f"{type(job).__name__}: {name} = {shown_value(value)}: {right}")
            params[name] = _text(value)
    return params


def _file_of(kind: type[Job], folder: Path) -> Path:
    if kind.__module__ != "__main__":
        file = inspect.getsourcefile(kind)
        if file is not None:
            return Path(file)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()
    path = folder / f"{name}.py"
    path.write_text(_Written(sys.modules[kind.__module__]).source(kind), encoding="utf-8")
    return path


class _Written:
    """The source of one class, after all that it uses of its module's names."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._parts: dict[str, str] = {}  #: by name, each after those that it uses

    def source(self, kind: type[Job]) -> str:
        """A file with this class; ``UsageError`` for what it uses and cannot be written down."""
        self._add(kind.__name__, kind)
        return "\n\n".join(self._parts.values()) + "\n"

    def _add(self, name: str, value: Any) -> None:
        if name in self._parts:
            return
        self._parts[name] = ""  # so that names which use each other end
        text = self._text(name, value)
        del self._parts[name]
        self._parts[name] = text

    def _text(self, name: str, value: Any) -> str:
        if isinstance(value, ModuleType):
            return f"import {value.__name__} as {name}"
        own = getattr(value, "__module__", None)
        called = getattr(value, "__qualname__", None)
        if own == self._module.__name__ and isinstance(value, type | FunctionType):
            return self._with_uses(_definition(value))
        if own and called and getattr(sys.modules.get(own), called, None) is value:
            return f"from {own} import {called} as {name}"
        if _is_literal(value):
            return f"{name} = {value!r}"
        right = "need it in a module, or in a file with the job"
        raise UsageError(f"job: uses {printable(name)}, a {type(value).__name__}: {right}")

    def _with_uses(self, text: str) -> str:
        for name in _globals_of(symtable.symtable(text, "<job>", "exec")):
            if name in vars(self._module):
                self._add(name, vars(self._module)[name])
        return text


def _definition(value: type | FunctionType) -> str:
    """The source of a class or function of a script or of a notebook's cell."""
    name = value.__name__
    functions = [value] if isinstance(value, FunctionType) else vars(value).values()
    codes = [inspect.unwrap(each).__code__ for each in functions if isinstance(each, FunctionType)]
    for code in codes:
        lines = linecache.getlines(code.co_filename)
        for node in ast.walk(ast.parse("".join(lines))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                first, last = node.lineno, node.end_lineno or node.lineno
                if first <= code.co_firstlineno <= last:
                    return textwrap.dedent("".join(lines[first - 1 : last]))
    raise UsageError(f"job {name}: its source is not known: need it in a file or a notebook's cell")


def _globals_of(table: symtable.SymbolTable) -> list[str]:
    """The names that a piece of source takes from around it."""
    names = [
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_referenced()
        and (symbol.is_global() or table.get_type() == "module")
        and not hasattr(builtins, symbol.get_name())
    ]
    inner = [name for child in table.get_children() for name in _globals_of(child)]
    return list(dict.fromkeys([*names, *inner]))


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError):
        return False
