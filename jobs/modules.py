"""The modules and packages beside a user's job file: found, shipped as text, imported from it.

    found = modules_beside(Path("jobs/count.py"), source, 10**6)      {"helpers.py": b"...", ...}
    use_modules("jobs", found)                  from now on "import helpers" finds that text

As when Python runs a script, a module beside it comes before an installed one of that name.  Not
before one of the standard library, and not before Railyard: its processes import these, too.

Never here: running a job.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from railyard.cluster.errors import UsageError
from railyard.cluster.files.inputfile import read_file
from railyard.cluster.shown import printable
from railyard.cluster.units import format_size

#: Most files beside a job's own.
FILES_MAX = 1000
_SUFFIX = ".py"
_INIT = "__init__.py"


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
                _require_few(file, found, bytes_max)
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
        _finder = None
    if not modules:
        return
    _finder = _Finder(folder, modules)
    _finder.begin()


def shown_path(folder: str, path: str) -> str:
    """The path of a shipped module, as tracebacks show it."""
    return str(Path(folder) / path)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of one job."""

    def __init__(self, folder: str, modules: Mapping[str, bytes]) -> None:
        self._folder = folder
        self._modules = modules
        #: {name of a top-level module: its file or folder}
        self._roots = {
            path.partition("/")[0].removesuffix(_SUFFIX): path.partition("/")[0] for path in modules
        }
        self._aside: dict[str, ModuleType] = {}
        self._packages = {
            str(parent).replace("/", ".")
            for path in modules
            for parent in Path(path).parents
            if parent != Path()
        }

    def shown(self, path: str) -> str:
        return shown_path(self._folder, path)

    def find_spec(
        self,
        fullname: str,
        _path: Sequence[str] | None = None,
        _target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        base = fullname.replace(".", "/")
        is_package = fullname in self._packages
        file = f"{base}/{_INIT}" if is_package else f"{base}{_SUFFIX}"
        if not is_package and file not in self._modules:
            return None
        # A package without __init__.py is an empty one.
        loader = _Loader(self.shown(file), self._modules.get(file, b""), is_package=is_package)
        spec = importlib.util.spec_from_loader(fullname, loader, is_package=is_package)
        if spec is not None and is_package:
            spec.submodule_search_locations = [self.shown(base)]
        return spec

    def begin(self) -> None:
        """Find them from now on; those of this folder that others have imported are set aside."""
        for name, path in sorted(self._roots.items()):
            module = sys.modules.get(name)
            if module is not None and not self._is_ours(module, name):
                origin = printable(str(getattr(module, "__file__", None) or "Railyard"))
                right = "need another name"
                raise UsageError(
                    f"{self.shown(path)}: {name} is imported from {origin} already: {right}"
                )
        self._aside = self._take_away()
        sys.meta_path.insert(0, self)

    def forget(self) -> None:
        """Undo ``begin``: modules that are imported already stay those of their users."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._take_away()
            sys.modules.update(self._aside)

    def _take_away(self) -> dict[str, ModuleType]:
        mine = [name for name in sys.modules if name.partition(".")[0] in self._roots]
        return {name: sys.modules.pop(name) for name in mine}

    def _is_ours(self, module: ModuleType, name: str) -> bool:
        """Whether a module is the file of the job's folder, imported by whoever runs Railyard."""
        path = self._roots[name]
        files = [Path(self.shown(path)), Path(self.shown(path)) / _INIT]
        return Path(getattr(module, "__file__", None) or "").absolute() in [
            file.absolute() for file in files
        ]


class _Loader(importlib.abc.ExecutionLoader):
    """Runs one shipped module."""

    def __init__(self, file_name: str, text: bytes, *, is_package: bool) -> None:
        self._file_name = file_name
        self._text = text
        self._is_package = is_package

    def get_filename(self, _fullname: str) -> str:
        return self._file_name

    def get_source(self, _fullname: str) -> str:
        return importlib.util.decode_source(self._text)

    def is_package(self, _fullname: str) -> bool:
        return self._is_package


#: That of the job that was loaded last.
_finder: _Finder | None = None


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
        if files := [path for path in inside if not _is_hidden(path.relative_to(folder))]:
            return files
    module = folder / f"{name}{_SUFFIX}"
    return [module] if module.is_file() else []


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _require_few(file: Path, found: Mapping[str, bytes], bytes_max: int) -> None:
    size = sum(map(len, found.values()))
    if len(found) > FILES_MAX or size > bytes_max:
        has = f"{len(found)} files or more, {format_size(size)}"
        right = f"at most {FILES_MAX} files and {format_size(bytes_max)}"
        raise UsageError(f"{printable(str(file))}: imports {has} beside it: need {right}")
