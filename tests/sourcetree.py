"""What the files of a source tree import, and the rules about that which tests plant breaches of.

A rule is a function from a tree to its breaches: one line each, with the place and the fix.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

#: the one name under which all parts are imported
NAME = "railyard"


@dataclass(frozen=True)
class Import:
    """One name of an import statement."""

    path: Path  #: relative to the tree
    line: int
    module: str  #: "netemu.fabric.fabric"
    nested: bool  #: within a function: not done when the file is imported
    for_types: bool  #: seen by the type checker alone

    def __str__(self) -> str:
        return f"{self.path}:{self.line} imports {self.module}"


class SourceTree:
    """The Python files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._imports: dict[Path, tuple[Import, ...]] = {}

    def sources(self, folder: str) -> list[Path]:
        """All Python files below a folder of the tree."""
        place = self._place(folder)
        file = place.with_suffix(".py")
        return [file] if file.is_file() else sorted(place.rglob("*.py"))

    def _place(self, name: str) -> Path:
        """Where a part is: at the top of the tree, or in ``railyard/`` itself."""
        at_the_top = (self.root / name.split("/")[0]).is_dir()
        return self.root / name if at_the_top else self.root / NAME / name

    def packages(self, folder: str) -> list[Path]:
        """All folders with an ``__init__.py`` below a folder of the tree, itself included."""
        return [path.parent for path in self.sources(folder) if path.name == "__init__.py"]

    def module_of(self, path: Path) -> str:
        """The module of a file: ``netemu.fabric.fabric``."""
        parts = path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__").removeprefix(f"{NAME}.")

    def file_of(self, module: str) -> Path | None:
        """The file of a module of the tree; None if it is none."""
        path = self._place(module.replace(".", "/"))
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate
        return None

    def all_imports(self, path: Path) -> tuple[Import, ...]:
        """All imports of a file."""
        if path not in self._imports:
            self._imports[path] = tuple(self._found_in(path, parsed(path), False, False))
        return self._imports[path]

    def imports(self, path: Path) -> list[Import]:
        """All imports of a file but those that only the type checker sees."""
        return [found for found in self.all_imports(path) if not found.for_types]

    def path_to(self, module: str, targets: Collection[str], seen: set[str]) -> list[str] | None:
        """How importing ``module`` leads to one of ``targets``: the modules on the way."""
        if module.split(".")[0] in targets:
            return [module]
        if module in seen:
            return None
        seen.add(module)
        if (path := self.file_of(module)) is None:
            return None
        for found in self.imports(path):
            rest = None if found.nested else self.path_to(found.module, targets, seen)
            if rest:
                return [module, *rest]
        return None

    def graph(self, folders: Iterable[str]) -> dict[str, set[str]]:
        """{module: the modules that it imports}, whether at run time or for types alone."""
        return {
            self.module_of(path): {found.module for found in self.all_imports(path)}
            for folder in folders
            for path in self.sources(folder)
        }

    def _found_in(
        self, path: Path, node: ast.AST, nested: bool, for_types: bool
    ) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                for module in self._modules_of(child):
                    place = path.relative_to(self.root)
                    yield Import(place, child.lineno, module, nested, for_types)
            elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
                for statements, typed in ((child.body, True), (child.orelse, for_types)):
                    body = ast.Module(body=statements, type_ignores=[])
                    yield from self._found_in(path, body, nested, typed)
            else:
                function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from self._found_in(path, child, nested or function, for_types)

    def _modules_of(self, node: ast.Import | ast.ImportFrom) -> list[str]:
        """The modules of an import, with the names that they have below ``railyard``."""
        if isinstance(node, ast.Import):
            return [alias.name.removeprefix(f"{NAME}.") for alias in node.names]
        if node.level or not node.module:
            return []
        whole = node.module.removeprefix(f"{NAME}.")
        inner = [f"{whole}.{alias.name}" for alias in node.names]
        return list(dict.fromkeys(name if self.file_of(name) else whole for name in inner))


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def within(module: str, prefixes: Iterable[str]) -> bool:
    """Whether a module is one of those named, or lies in one of them."""
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


# Rules -------------------------------------------------------------------------------------------
def arrows_up(tree: SourceTree, floors: Iterable[tuple[str, ...]]) -> list[str]:
    """Imports that lead from a room to one above it; rooms are given from the bottom up."""
    return [
        f"{found}; {above} is above {room}: move what is wanted down"
        for rooms in floors
        for height, room in enumerate(rooms)
        for path in tree.sources(room.replace(".", "/"))
        for found in tree.all_imports(path)
        for above in rooms[height + 1 :]
        if within(found.module, (above,))
    ]


def import_circles(
    tree: SourceTree, folders: Iterable[str], known: Iterable[tuple[str, ...]] = ()
) -> list[str]:
    """Circles of imports, but for those that lie in rooms where one is known."""
    return [
        f"{' -> '.join(circle)} -> {circle[0]}; let one of them know less"
        for circle in circles(tree.graph(folders))
        if not any(all(within(module, rooms) for module in circle) for rooms in known)
    ]


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """A way round for each group of modules that all lead to one another."""
    found: list[list[str]] = []
    done: set[str] = set()
    for start in sorted(graph):
        way = None if start in done else _way_back(graph, start)
        if way:
            found.append(way)
            done.update(way)
    return found


def _way_back(graph: Mapping[str, set[str]], start: str) -> list[str] | None:
    """The shortest way from a module back to itself, without it at the end."""
    ways = [[start]]
    seen: set[str] = set()
    for way in ways:
        for module in sorted(graph.get(way[-1], ())):
            if module == start:
                return way
            if module not in seen:
                seen.add(module)
                ways.append([*way, module])
    return None


def rooms_without_words(tree: SourceTree, folders: Iterable[str]) -> list[str]:
    """Packages that do not say what they are for, what is not in them, and what to open first."""
    broken = []
    for folder in folders:
        for room in tree.packages(folder):
            place = (room / "__init__.py").relative_to(tree.root)
            words = ast.get_docstring(parsed(room / "__init__.py")) or ""
            first = re.search(r"\bOpen ``(\w+)(?:\.py)?`` first", words)
            if not re.search(r"\bnot here\b|\bnothing\b", words, re.IGNORECASE):
                broken.append(f'{place}:1 needs a line "Not here: ..."')
            if not first:
                broken.append(f'{place}:1 needs a line "Open ``FILE`` first."')
            elif tree.file_of(f"{tree.module_of(room / '__init__.py')}.{first[1]}") is None:
                broken.append(f"{place}:1 says to open {first[1]} first, which is not there")
    return broken
