"""Packages a job to be shipped: its source text and its parameters, never a pickled object.

A job that comes with Railyard is named by its module.  A user's job is a file.  Its text is
shipped, with the modules beside it that it imports, and compiled under the file's own name in every
process that runs it, so that tracebacks show the user's lines.
"""

from __future__ import annotations

import importlib
import inspect
import linecache
import sys
import traceback
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, ClassVar

import msgspec

from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.files.inputfile import read_file
from railyard.cluster.messages.execution import SOURCE_BYTES_MAX, JobPackage
from railyard.cluster.shown import printable, words_of
from railyard.jobs.model import Job, require_known_hooks
from railyard.jobs.modules import modules_beside, shown_path, use_modules
from railyard.jobs.params import read_params

#: Jobs of these packages are named by their module; all others are shipped as text.
_OURS = "railyard.jobs."

#: Functions that a job's module may define in place of a class; all but ``map`` are optional.
_FUNCTIONS = ("map", "combine", "reduce", "partition", "setup")
#: Longest error of a job's file that is shown: its message must fit on a line.
_WORDS_LETTERS_MAX = 300
#: Name of the class that is made of a module's functions.
_FUNCTIONS_CLASS = "Functions"


def pack_job(job: type[Job], params: Mapping[str, Any] | None = None) -> JobPackage:
    """Package a job class with its parameters, which are converted from text to their types.

    Raises ``UsageError`` for wrong parameters.
    """
    if not job.__module__.startswith(_OURS):
        file = inspect.getsourcefile(job)
        if file is None:
            raise UsageError(f"{job.__name__}: has no source file to ship")
        return pack_file(Path(file), job.__name__, params)
    return _packed(
        job,
        params,
        JobPackage(
            module=job.__module__, file_name="", source=b"", job_class=job.__name__, params={}
        ),
    )


def pack_file(
    file: Path, job_class: str = "", params: Mapping[str, Any] | None = None
) -> JobPackage:
    """Package the job in a user's file, with the modules beside it that it imports.

    ``job_class`` is needed if there are several; "" takes the only one.  Raises a one-line
    ``UsageError`` for a file that cannot be read, does not run or has no job, and for wrong
    parameters.
    """
    source = read_file(file, SOURCE_BYTES_MAX)
    shipped = JobPackage(
        module="",
        file_name=printable(str(file)),
        source=source,
        modules=modules_beside(file, source, SOURCE_BYTES_MAX - len(source)),
        job_class=job_class,
        params={},
    )
    job = _choose(_module_of(shipped), job_class, shipped.file_name)
    package = msgspec.structs.replace(shipped, job_class=job.__name__)
    return _packed(job, params, package)


def load_job(package: JobPackage) -> Job:
    """Create the job of a package, with its parameters.

    Runs the shipped file.  Raises ``UsageError`` as ``pack_file`` does, and for a module outside
    ``railyard.jobs``.
    """
    if not package.module:
        module = _module_of(package)
        return _choose(module, package.job_class, package.file_name)(**package.params)
    if not package.module.startswith(_OURS):
        raise UsageError(f'"{package.module}" is no job of Railyard: need a module in {_OURS}*')
    try:
        module = importlib.import_module(package.module)
    except ImportError as error:
        raise UsageError(f'"{package.module}" is no job of Railyard: {error}') from None
    return _choose(module, package.job_class, package.module)(**package.params)


def mistake_in(package: JobPackage, error: BaseException) -> str:
    """One line for an error of a job's code: the last place in its files, and what it is."""
    return _where(error, package)


def _packed(job: type[Job], params: Mapping[str, Any] | None, package: JobPackage) -> JobPackage:
    try:
        job(**(params or {})).stage_specs()  # fails here rather than in every task
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(_where(error, package)) from error
    return msgspec.structs.replace(package, params=read_params(job, params or {}))


def _module_of(package: JobPackage) -> ModuleType:
    """Run a shipped file as a new module, under the name of the file."""
    source, file_name = package.source, package.file_name
    use_modules(str(Path(file_name).parent), package.modules)
    name = f"railyard_job_{zlib.crc32(source):08x}_{Path(file_name).stem}"
    try:
        code = compile(source, file_name, "exec", dont_inherit=True)
        text = source.decode("utf-8")
    except SyntaxError as error:
        raise UsageError(_where(error, package)) from None
    except ValueError as error:  # a null byte, or no UTF-8
        raise UsageError(f"{file_name}: is no Python source: {error}") from None
    # Without a modification time, linecache never checks the file, which may not exist here.
    linecache.cache[file_name] = (len(text), None, text.splitlines(keepends=True), file_name)
    module = ModuleType(name)
    module.__file__ = file_name
    sys.modules[name] = module  # annotations are looked up there
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(_where(error, package)) from error
    return module


def _where(error: BaseException, package: JobPackage) -> str:
    """One line: the last place in the user's files that ``error`` came through, and what it is."""
    own = package.file_name or package.module
    folder = str(Path(package.file_name).parent)
    files = {own, *(shown_path(folder, path) for path in package.modules)}
    if isinstance(error, SyntaxError) and error.filename in files:
        line = f": {error.text.strip()}" if error.text else ""
        return f"{error.filename}:{error.lineno or 1}: {error.msg}{line}"
    place = _last_place(error, files) or own
    hint = _hint(error) if isinstance(error, ImportError) else ""
    words = printable(words_of(error).partition("\n")[0], _WORDS_LETTERS_MAX)
    kind = printable(type(error).__name__, _WORDS_LETTERS_MAX)
    return f"{place}: {kind}{': ' if words else ''}{words}{hint}"


def _last_place(error: BaseException, files: Collection[str]) -> str:
    """The last file and line, of those files, that an error came through; "" if through none."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno}" for frame in frames if frame.filename in files]
    return places[-1] if places else ""


def _hint(error: ImportError) -> str:
    """A hint for an import that failed."""
    if (error.name or "").split(".")[0] == "jobs":
        return " (write: from railyard import Job, Lines, ...)"
    if isinstance(error, ModuleNotFoundError):
        return " (it is not installed, and not beside the job's file)"
    return ""


def _choose(module: ModuleType, job_class: str, shown: str) -> type[Job]:
    """The job class with this name, or the module's only one if the name is ""."""
    jobs = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Job) and value.__module__ == module.__name__
    }
    if not jobs and isinstance(getattr(module, "map", None), FunctionType):
        jobs = {_FUNCTIONS_CLASS: _from_functions(module)}
    if not jobs:
        right = "a class derived from railyard.Job, or functions map and reduce"
        raise UsageError(f"{shown}: has no job: need {right}")
    if job_class and job_class not in jobs:
        raise unknown_name(f"job in {shown}", job_class, jobs)
    if not job_class and len(jobs) > 1:
        raise UsageError(f"{shown}: has {len(jobs)} jobs: choose one of {', '.join(sorted(jobs))}")
    return jobs[job_class] if job_class else next(iter(jobs.values()))


class _FunctionsJob(Job):
    """Base of the classes that are made of a module's functions."""

    module: ClassVar[ModuleType]

    def __init__(self, **params: Any) -> None:
        # The functions read their parameters as variables of the module.
        vars(self.module).update(read_params(type(self), params))
        super().__init__(**params)


def _from_functions(module: ModuleType) -> type[Job]:
    """Make a job class of a module's functions; its annotated variables are the parameters."""
    annotations = inspect.get_annotations(module)
    own = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    }
    require_known_hooks(own, printable(str(module.__file__)))
    body: dict[str, Any] = {
        name: vars(module)[name] for name in annotations if name in vars(module)
    }
    for name in _FUNCTIONS:
        function = getattr(module, name, None)
        if isinstance(function, FunctionType):
            body[name] = staticmethod(function)
    if hasattr(module, "input"):
        body["input"] = module.input
    body |= {
        "module": module,
        "__annotations__": annotations,
        "__module__": module.__name__,
        "__doc__": module.__doc__,
    }
    return type(_FUNCTIONS_CLASS, (_FunctionsJob,), body)
