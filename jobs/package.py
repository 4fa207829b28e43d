"""Packages a job to be shipped: its source text and its parameters, never a pickled object.

A job that comes with Railyard is named by its module.  A user's job is a file.  Its text is
shipped, with the modules beside it that it imports, and compiled under the file's own name in every
process that runs it, so that tracebacks show the user's lines.  As when Python runs a script, a
module beside it comes before an installed one of that name; not before one of the standard library,
and not before Railyard: its processes import these, too.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import linecache
import sys
import traceback
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, ClassVar

import msgspec

from railyard.cluster.errors import UsageError, printable, unknown_name, words_of
from railyard.cluster.inputfile import read_file
from railyard.cluster.messages import SOURCE_BYTES_MAX, JobPackage
from railyard.cluster.units import format_size
from railyard.jobs.model import Job, read_params, require_known_hooks

FILES_MAX = 1000  #: beside a job's own
_SUFFIX = ".py"
_INIT = "__init__.py"
#: Jobs of these packages are named by their module; all others are shipped as text.
_OURS = "railyard.jobs."

#: Functions that a job's module may define in place of a class; all but ``map`` are optional.
_FUNCTIONS = ("map", "combine", "reduce", "partition", "setup")
#: Longest error of a job's file that is shown: its message must fit on a line.
_WORDS_LETTERS_MAX = 300
_FUNCTIONS_CLASS = "Functions"  #: name of the class that is made of a module's functions


def pack_job(job: type[Job], params: Mapping[str, Any] | None = None) -> JobPackage:
    """Package a job class with its parameters, which are converted from text to their types.

    Raises ``UsageError`` for wrong parameters.
    """
    if not job.__module__.startswith(_OURS):
        file = inspect.getsourcefile(job)
        if file is None:
            raise UsageError(f"{job.__name__}: has no source file to ship")
        return pack_file(Path(file), job.__name__, params)
    name = job.__name__
    ours = JobPackage(module=job.__module__, file_name="", source=b"", job_class=name, params={})
    return _packed(job, params, ours)


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
    return _packed(job, params, msgspec.structs.replace(shipped, job_class=job.__name__))


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


def _packed(job: type[Job], params: Mapping[str, Any] | None, package: JobPackage) -> JobPackage:
    try:
        job(**(params or {})).stage_specs()  # fails here rather than in every task
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(mistake_in(package, error)) from error
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
        raise UsageError(mistake_in(package, error)) from None
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
        raise UsageError(mistake_in(package, error)) from error
    return module


def mistake_in(package: JobPackage, error: BaseException) -> str:
    """One line for an error of a job's code: the last place in its files, and what it is."""
    own = package.file_name or package.module
    folder = str(Path(package.file_name).parent)
    files = {own, *(str(Path(folder) / path) for path in package.modules)}
    if isinstance(error, SyntaxError) and error.filename in files:
        line = f": {error.text.strip()}" if error.text else ""
        return f"{error.filename}:{error.lineno or 1}: {error.msg}{line}"
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno}" for frame in frames if frame.filename in files]
    place = places[-1] if places else own
    missing = isinstance(error, ModuleNotFoundError)
    hint = " (it is not installed, and not beside the job's file)" if missing else ""
    words = printable(words_of(error).partition("\n")[0], _WORDS_LETTERS_MAX)
    kind = printable(type(error).__name__, _WORDS_LETTERS_MAX)
    return f"{place}: {kind}{': ' if words else ''}{words}{hint}"


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


# The modules beside a job's file -----------------------------------------------------------------
def modules_beside(file: Path, source: bytes, bytes_max: int) -> dict[str, bytes]:
    """{path from the job's folder: text} of what the job file imports of its own folder.

    Follows imports from module to module, those within functions as well.  Packages are taken
    whole.  Raises ``UsageError`` for files that cannot be read, for too many of them, and for more
    than ``bytes_max`` together.
    """
    folder, found = file.parent, dict[str, bytes]()
    waiting, seen = [source], {"railyard", *sys.stdlib_module_names}
    while waiting:
        for name in _imported(waiting.pop()):
            if name in seen:
                continue
            seen.add(name)
            for path in _files_of(folder, name):
                text = read_file(path, bytes_max)
                found[path.relative_to(folder).as_posix()] = text
                size = sum(map(len, found.values()))
                if len(found) > FILES_MAX or size > bytes_max:
                    has = f"{len(found)} files or more, {format_size(size)}"
                    right = f"at most {FILES_MAX} files and {format_size(bytes_max)}"
                    shown = printable(str(file))
                    raise UsageError(f"{shown}: imports {has} beside it: need {right}")
                waiting.append(text)
    return found


def use_modules(folder: str, modules: Mapping[str, bytes]) -> None:
    """Import these from now on, {path: text}, in place of those of the job before.

    ``folder``: what their paths are shown in.  Raises ``UsageError`` if this process has imported
    another module under one of their names, as Railyard does with its libraries.
    """
    global _finder
    if _finder is not None:
        _finder.forget()
    _finder = _Finder(folder, modules) if modules else None
    if _finder is not None:
        _finder.begin()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.ExecutionLoader):
    """Finds and loads the modules of one job."""

    def __init__(self, folder: str, modules: Mapping[str, bytes]) -> None:
        self._folder = folder
        self._modules = modules
        #: {name of a top-level module: its file or folder}
        self._roots = {
            path.partition("/")[0].removesuffix(_SUFFIX): path.partition("/")[0] for path in modules
        }
        self._replaced: dict[str, ModuleType] = {}
        self._packages = {
            str(parent).replace("/", ".")
            for path in modules
            for parent in Path(path).parents
            if parent != Path()
        }

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if self.is_package(fullname) or self._file_of(fullname) in self._modules:
            return importlib.util.spec_from_loader(fullname, self)
        return None

    def is_package(self, fullname: str) -> bool:
        return fullname in self._packages

    def get_filename(self, fullname: str) -> str:
        return self._shown(self._file_of(fullname))

    def get_source(self, fullname: str) -> str:
        # A package without __init__.py is an empty one.
        return importlib.util.decode_source(self._modules.get(self._file_of(fullname), b""))

    def _file_of(self, module: str) -> str:
        base = module.replace(".", "/")
        return f"{base}/{_INIT}" if self.is_package(module) else f"{base}{_SUFFIX}"

    def _shown(self, path: str) -> str:
        """The path of a shipped module, as tracebacks show it."""
        return str(Path(self._folder) / path)

    def begin(self) -> None:
        """Find them from now on; those of this folder that others have imported are replaced."""
        for name, path in sorted(self._roots.items()):
            module = sys.modules.get(name)
            if module is not None and not self._is_ours(module, name):
                origin = printable(str(getattr(module, "__file__", None) or "Railyard"))
                has = f"{name} is imported from {origin} already"
                raise UsageError(f"{self._shown(path)}: {has}: need another name")
        self._replaced = self._remove()
        sys.meta_path.insert(0, self)

    def forget(self) -> None:
        """Undo ``begin``: modules that are imported already stay those of their users."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._remove()
            sys.modules.update(self._replaced)

    def _remove(self) -> dict[str, ModuleType]:
        mine = [name for name in sys.modules if name.partition(".")[0] in self._roots]
        return {name: sys.modules.pop(name) for name in mine}

    def _is_ours(self, module: ModuleType, name: str) -> bool:
        """Whether a module is the file of the job's folder, imported by whoever runs Railyard."""
        path = Path(self._shown(self._roots[name])).absolute()
        return Path(getattr(module, "__file__", None) or "").absolute() in (path, path / _INIT)


_finder: _Finder | None = None  #: of the job that was loaded last


def _imported(text: bytes) -> Iterator[str]:
    """The top-level names of the modules that a text imports, in order; none if it is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # reported with its line when it is run
        return
    for node in ast.walk(tree):
        names: Iterable[str] = ()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = [node.module]
        for name in names:
            yield name.partition(".")[0]


def _files_of(folder: Path, name: str) -> list[Path]:
    """The files of a module or package in a folder; none if there is no such."""
    if not name.isidentifier():
        return []
    if (package := folder / name).is_dir():
        inside = sorted(package.rglob(f"*{_SUFFIX}"))
        parts = {path: path.relative_to(folder).parts for path in inside}
        if files := [path for path in inside if not any(p.startswith(".") for p in parts[path])]:
            return files
    module = folder / f"{name}{_SUFFIX}"
    return [module] if module.is_file() else []
