"""The rules of ARCHITECTURE.md, as tests whose messages name the place and the fix."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: the one name under which all parts are imported
NAME = "railyard"
PARTS = (
    "cluster",
    "netemu",
    "dfs",
    "jobs",
    "resourcemanager",
    "nodemanager",
    "simulator",
    "scripts",
)
LINES_MAX = 500

NETEMU_PURE = (
    "netemu.circuits",
    "netemu.emulator.statistics",
    "netemu.fabric",
    "netemu.messages",
    "netemu.schedulers",
)
NETEMU_CLIENT = ("netemu.client", "netemu.messages")
CORE_PURE = (
    "resourcemanager.core",
    "resourcemanager.driving",
    "resourcemanager.interface",
    "resourcemanager.schedulers",
)
DFS_PURE = ("dfs.messages", "dfs.paths", "dfs.placement", "dfs.namenode.core")

#: part -> modules of other parts that it may import (with all below them); DESIGN.md's table
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "cluster": (),
    "netemu": ("cluster",),
    "dfs": ("cluster", *NETEMU_CLIENT),
    "jobs": ("cluster",),
    "resourcemanager": (
        "cluster",
        "jobs.model",
        "jobs.package",
        "jobs.workloads.model",
        *NETEMU_PURE,
        *DFS_PURE,
    ),
    "nodemanager": ("cluster", *NETEMU_CLIENT, "dfs.client", "dfs.messages", "jobs"),
    "simulator": (
        "cluster",
        "jobs.workloads",
        *CORE_PURE,
        *NETEMU_PURE,
        *DFS_PURE,
        "dfs.namenode.journal",
    ),
    "scripts": (*PARTS, "benchmarks"),
}

#: modules that decide: no clock, no sockets, no dice of their own, no threads
PURE = (
    "dfs.namenode.blockmap",
    "dfs.namenode.core",
    "dfs.namenode.datanodes",
    "dfs.namenode.doubts",
    "dfs.namenode.namespace",
    "dfs.namenode.orders",
    "dfs.namenode.replication",
    "dfs.placement",
    "jobs.model",
    "jobs.workloads",
    "netemu.circuits",
    "netemu.emulator.grants",
    "netemu.emulator.statistics",
    "netemu.fabric",
    "netemu.schedulers",
    "resourcemanager.core",
    "resourcemanager.driving.coredriver",
    "resourcemanager.driving.report",
    "resourcemanager.driving.trace",
    "resourcemanager.interface",
    "resourcemanager.process.progress",
    "resourcemanager.schedulers",
    "simulator",
)
IMPURE = {
    "time": "take now_s as an argument",
    "datetime": "take now_s as an argument",
    "socket": "return a command; the driver sends it",
    "zmq": "return a command; the driver sends it",
    "select": "return a command; the driver waits",
    "asyncio": "return a command; the driver waits",
    "threading": "let the driver be the only caller",
    "subprocess": "return a command; the driver starts processes",
    "sqlite3": "take a journal as an argument",
}
NUMPY_SEEDED = ("np.random.Generator", "np.random.default_rng", "np.random.PCG64")
#: imported by the parent of all daemons, so each of them would pay for it
HEAVY = {"click", "rich", "scipy", "asyncio", "pandas", "matplotlib", "jinja2", "joblib"}


#: the rooms of parts, each above those that it may import; what lies beside them is in none
ROOMS = (
    ("cluster.files", "cluster.messaging", "cluster.processes"),
    ("jobs.samples", "jobs.workloads", "jobs.mixes"),
    ("nodemanager.attempt", "nodemanager.containers"),
    (
        "resourcemanager.interface",
        "resourcemanager.core",
        "resourcemanager.schedulers",
        "resourcemanager.driving",
        "resourcemanager.process",
    ),
    ("simulator.nodes", "simulator.faults"),
    (
        "scripts.terminal",
        "scripts.clusters",
        "scripts.results",
        "scripts.running",
        "scripts.simulating",
        "scripts.comparing",
        "scripts.report",
        "scripts.reproduce",
        "scripts.commands",
    ),
)
#: circles of imports that are yet to be opened; no other may come
CIRCLES = (
    ("netemu.circuits", "netemu.fabric", "netemu.schedulers"),
    ("resourcemanager.core.shuffling", "resourcemanager.core.state"),
)


@dataclass(frozen=True)
class Import:
    """An import statement's one name."""

    path: Path
    line: int
    module: str  #: "netemu.client.client"
    nested: bool  #: within a function: not done when the file is imported

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.module}"


def sources(part: str) -> list[Path]:
    return sorted((ROOT / part).rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def imports(path: Path) -> tuple[Import, ...]:
    """All imports of a file, but for those that only the type checker sees."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(_imports(path, tree, nested=False))


@functools.cache
def imports_for_types(path: Path) -> tuple[Import, ...]:
    """The imports of a file that only the type checker sees."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(
        found
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for found in _imports(path, ast.Module(body=node.body, type_ignores=[]), nested=False)
    )


def _imports(path: Path, node: ast.AST, *, nested: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(path, child.lineno, within_name(alias.name), nested)
        elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
            whole = within_name(child.module)
            for module in dict.fromkeys(_named(whole, alias.name) for alias in child.names):
                yield Import(path, child.lineno, module, nested)
        else:
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(path, child, nested=nested or function)


def within_name(module: str) -> str:
    """``railyard.netemu.client`` as this file has it: ``netemu.client``."""
    return module.removeprefix(f"{NAME}.")


def _named(module: str, name: str) -> str:
    """``from dfs import client`` names a module, ``from dfs.client import DfsClient`` does not."""
    inner = f"{module}.{name}"
    return inner if file_of(inner) is not None else module


def file_of(module: str) -> Path | None:
    """The file of a module of ours; None if it is none."""
    path = ROOT.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def within(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


def tell(broken: list[str]) -> str:
    return "\n" + "\n".join(broken)


def test_parts_import_only_what_the_table_allows():
    broken = [
        f"{found}; {part} may import {', '.join(allowed) or 'nothing of ours'}"
        for part, allowed in MAY_IMPORT.items()
        for path in sources(part)
        for found in imports(path)
        if found.module.split(".")[0] in (*PARTS, "tests", "benchmarks")
        and not within(found.module, (part, *allowed))
    ]
    assert not broken, tell(broken)


def test_rooms_import_only_what_is_below_them():
    broken = [
        f"{found}; {above} is above {room}: move what is wanted down"
        for rooms in ROOMS
        for height, room in enumerate(rooms)
        for path in sources(room.replace(".", "/"))
        for found in (*imports(path), *imports_for_types(path))
        for above in rooms[height + 1 :]
        if within(found.module, (above,))
    ]
    assert not broken, tell(broken)


def test_no_circles():
    graph = {
        module_of(path): {found.module for found in (*imports(path), *imports_for_types(path))}
        for part in PARTS
        for path in sources(part)
    }
    broken = [
        f"{' -> '.join(circle)} -> {circle[0]}; let one of them know less"
        for circle in circles(graph)
        if not any(all(within(module, known) for module in circle) for known in CIRCLES)
    ]
    assert not broken, tell(broken)


def test_a_circle_is_found_and_its_way_told():
    graph = {"a": {"b", "x"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "x": set()}
    assert [sorted(circle) for circle in circles(graph)] == [["a", "b", "c"]]


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """A way round for each group of modules that all lead to one another."""
    found, done = [], set()
    for start in sorted(graph):
        if start in done:
            continue
        way = _way_back(graph, start)
        if way:
            found.append(way)
            done.update(way)
    return found


def _way_back(graph: dict[str, set[str]], start: str) -> list[str] | None:
    """The shortest way from a module back to itself, without it at the end."""
    ways = [[start]]
    seen = set()
    for way in ways:
        for module in sorted(graph.get(way[-1], ())):
            if module == start:
                return way
            if module not in seen:
                seen.add(module)
                ways.append([*way, module])
    return None


def test_relative_imports_are_not_used():
    broken = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports relatively; write the whole name"
        for part in PARTS
        for path in sources(part)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not broken, tell(broken)


def pure_files() -> list[Path]:
    every = [path for part in PARTS for path in sources(part)]
    return [path for path in every if within(module_of(path), PURE)]


def test_what_decides_has_no_clock_and_no_io():
    broken = [
        f"{found}; {IMPURE[found.module.split('.')[0]]}"
        for path in pure_files()
        for found in imports(path)
        if found.module.split(".")[0] in IMPURE
    ]
    assert not broken, tell(broken)


def test_what_decides_imports_nothing_of_ours_that_has():
    broken = []
    for path in pure_files():
        for found in imports(path):
            chain = path_to(found.module, set(IMPURE), {module_of(path)})
            if chain:
                broken.append(f"{found}, which comes to {' -> '.join(chain)}; split the module")
    assert not broken, tell(broken)


def test_what_decides_throws_only_the_dice_it_was_given():
    broken = []
    for path in pure_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                dice = ast.unparse(node)
                seeded = ("random.Random", *NUMPY_SEEDED)
                if re.match(r"(np\.|numpy\.)?random\.", dice) and dice not in seeded:
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    broken.append(f"{place} calls {dice}; take a random.Random as an argument")
    assert not broken, tell(broken)


def test_daemons_import_nothing_heavy():
    chain = path_to("scripts.clusters.cluster_main", HEAVY, set())
    assert not chain, f"{' -> '.join(chain or [])}: import it where it is used, within a function"


def path_to(module: str, targets: set[str], seen: set[str]) -> list[str] | None:
    """How importing ``module`` leads to one of ``targets``: the modules on the way."""
    if module.split(".")[0] in targets:
        return [module]
    path = file_of(module)
    if path is None or module in seen:
        return None
    seen.add(module)
    for found in imports(path):
        rest = None if found.nested else path_to(found.module, targets, seen)
        if rest:
            return [module, *rest]
    return None


def test_files_hold_one_idea():
    every = [path for part in (*PARTS, "benchmarks", "tests") for path in sources(part)]
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in every}
    broken = [
        f"{path.relative_to(ROOT)} has {length} lines; split it by its ideas, at most {LINES_MAX}"
        for path, length in lengths.items()
        if length > LINES_MAX
    ]
    assert not broken, tell(broken)


def test_architecture_page_names_the_folders_there_are():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE))
    there = {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and not path.name.startswith(".") and any(path.rglob("*.py"))
    } - {"build", "dist"}
    assert named - {"docs"} == there, "ARCHITECTURE.md: the table of folders, against the folders"


def test_architecture_page_has_the_table_that_is_tested():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \|.*\| ([^|]*) \|$", text, re.MULTILINE)
    told = {part: set(re.findall(r"`([\w.]+)`", allowed)) for part, allowed in rows}
    for part, allowed in MAY_IMPORT.items():
        if part != "scripts":
            assert told[part] == set(allowed), f"ARCHITECTURE.md: what {part}/ may import"


def test_every_module_says_what_it_is_for():
    broken = [
        f"{path.relative_to(ROOT)}:1 has no docstring; say what the file is for"
        for part in PARTS
        for path in sources(part)
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not broken, tell(broken)


def test_parts_are_imported_by_the_one_name():
    broken = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {name}; write {NAME}.{name}"
        for part in (*PARTS, "benchmarks", "tests")
        for path in sources(part)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in _imported_names(node)
        if name.split(".")[0] in (*PARTS, "benchmarks")
    ]
    assert not broken, tell(broken)


def _imported_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
