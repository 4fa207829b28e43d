"""The rules of ARCHITECTURE.md, as tests whose messages name the place and the fix."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.sourcetree import (
    NAME,
    SourceTree,
    arrows_up,
    import_circles,
    parsed,
    rooms_without_words,
    within,
)

ROOT = Path(__file__).parent.parent
TREE = SourceTree(ROOT)
#: the application, in ``railyard/`` itself, from the bottom up
APPLICATION = ("terminal", "runs", "experiments", "report", "api", "chaos", "cli")
PARTS = (
    "cluster",
    "netemu",
    "dfs",
    "jobs",
    "resourcemanager",
    "nodemanager",
    "gateway",
    "simulator",
    *APPLICATION,
)
LINES_MAX = 800
LINES_MIN = 40
#: modules that may be small: what authors of schedulers read, and flow schedulers, a file each
SMALL = ("resourcemanager.interface", "netemu.schedulers", "gateway.main")
MODULES_MIN = 3
DEPTH_MAX = 3
PARAMETERS_MAX = 8
#: the functions of these parts have the options of commands as keywords
OPTIONS_AS_KEYWORDS = ("api",)
MEDIAN = "median lines of a file"
RATCHETS = {"lines": 79_940, "files": 358, MEDIAN: 206, "words of docs/": 58_193}

NETEMU_KNOWN = (
    "netemu.emulator.statistics",
    "netemu.messages",
    "netemu.model",
    "netemu.schedulers",
)
NETEMU_CLIENT = ("netemu.client", "netemu.messages", "netemu.transfers")
DFS_CLIENT = ("dfs.client", "dfs.messages", "dfs.reader", "dfs.writer")
CORE_PURE = (
    "resourcemanager.core",
    "resourcemanager.driving",
    "resourcemanager.interface",
    "resourcemanager.schedulers",
)
DFS_PURE = ("dfs.messages", "dfs.paths", "dfs.placement", "dfs.namenode.core")

#: part -> modules of other parts that it may import (with all below them); ARCHITECTURE.md's table
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
        *NETEMU_KNOWN,
        "netemu.record",
        *DFS_PURE,
    ),
    "nodemanager": ("cluster", *NETEMU_CLIENT, *DFS_CLIENT, "jobs"),
    "gateway": (
        "cluster",
        *DFS_CLIENT,
        "dfs.paths",
        "jobs.formats",
        "jobs.package",
        "jobs.streaming",
        "netemu.messages",
        "netemu.model",
        "netemu.record",
        "resourcemanager.core",
        "resourcemanager.driving",
        "resourcemanager.interface",
        "resourcemanager.process.messages",
        "resourcemanager.process.progress",
    ),
    "simulator": (
        "cluster",
        "jobs.workloads",
        *CORE_PURE,
        *NETEMU_KNOWN,
        "netemu.fabric",
        *DFS_PURE,
        "dfs.namenode.journal",
        "resourcemanager.driving.orders",
    ),
    **dict.fromkeys(APPLICATION, (*PARTS, "benchmarks")),
}

#: modules that decide: no clock, no sockets, no random numbers of their own, no threads
PURE = (
    "dfs.namenode.blockmap",
    "dfs.namenode.core",
    "dfs.namenode.datanodes",
    "dfs.namenode.namespace",
    "dfs.namenode.replication",
    "dfs.placement",
    "jobs.model",
    "jobs.workloads",
    "netemu.circuits",
    "netemu.emulator.grants",
    "netemu.emulator.statistics",
    "netemu.fabric",
    "netemu.kernel",
    "netemu.model",
    "netemu.record",
    "netemu.schedulers",
    "resourcemanager.core",
    "resourcemanager.driving.coredriver",
    "resourcemanager.driving.history",
    "resourcemanager.driving.report",
    "resourcemanager.driving.trace",
    "resourcemanager.interface",
    "resourcemanager.process.progress",
    "resourcemanager.process.taskhistory",
    "resourcemanager.schedulers",
    "chaos.plan",
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
    ("jobs.streaming", "jobs.samples", "jobs.workloads"),
    (
        "netemu.model",
        "netemu.record",
        "netemu.kernel",
        "netemu.schedulers",
        "netemu.circuits",
        "netemu.fabric",
        "netemu.emulator",
        "netemu.client",
        "netemu.transfers",
    ),
    (
        "resourcemanager.interface",
        "resourcemanager.core",
        "resourcemanager.schedulers",
        "resourcemanager.driving",
        "resourcemanager.process",
    ),
    ("gateway.http", "gateway.page"),
    ("gateway.http", "gateway.webhdfs", "gateway.yarn"),
    APPLICATION,
)


def lines_of(broken: list[str]) -> str:
    return "\n" + "\n".join(broken)


def test_parts_import_only_what_the_table_allows():
    broken = [
        f"{found}; {part} may import {', '.join(allowed) or 'nothing of ours'}"
        for part, allowed in MAY_IMPORT.items()
        for path in TREE.sources(part)
        for found in TREE.imports(path)
        if found.module.split(".")[0] in (*PARTS, "tests", "benchmarks")
        and not within(found.module, (part, *allowed))
    ]
    assert not broken, lines_of(broken)


def test_rooms_import_only_what_is_below_them():
    broken = arrows_up(TREE, ROOMS)
    assert not broken, lines_of(broken)


def test_an_arrow_up_is_found(tmp_path):
    tree = planted(
        tmp_path,
        {
            "house/cellar/coal.py": "from railyard.house.attic.swallows import Swallow\n",
            "house/cellar/wine.py": (
                "from typing import TYPE_CHECKING\n\n"
                "if TYPE_CHECKING:\n    from railyard.house.attic import swallows\n"
            ),
            "house/attic/swallows.py": "def nest():\n    import railyard.house.cellar.coal\n",
        },
    )
    assert arrows_up(tree, [("house.cellar", "house.attic")]) == [
        "house/cellar/coal.py:1 imports house.attic.swallows; "
        "house.attic is above house.cellar: move what is wanted down",
        "house/cellar/wine.py:4 imports house.attic.swallows; "
        "house.attic is above house.cellar: move what is wanted down",
    ]


def test_no_circles():
    broken = import_circles(TREE, PARTS)
    assert not broken, lines_of(broken)


def test_a_circle_is_found_and_its_way_reported(tmp_path):
    tree = planted(
        tmp_path,
        {
            "house/a.py": "from railyard.house.b import B\n",
            "house/b.py": "def late():\n    from railyard.house import c\n",
            "house/c.py": (
                "from typing import TYPE_CHECKING\n\n"
                "if TYPE_CHECKING:\n    from railyard.house.a import A\n"
            ),
            "house/d.py": "from railyard.house import a\n",
        },
    )
    assert import_circles(tree, ["house"]) == [
        "house.a -> house.b -> house.c -> house.a; let one of them know less"
    ]
    assert import_circles(tree, ["house"], known=[("house",)]) == []


def test_every_room_says_what_it_is_for_what_is_not_in_it_and_what_to_open():
    broken = rooms_without_words(TREE, (*PARTS, "benchmarks"))
    assert not broken, lines_of(broken)


def test_a_room_without_words_is_found(tmp_path):
    words = '"""A hall.\n\nNot here: guests.\nOpen ``{}`` first.\n"""\n'
    tree = planted(
        tmp_path,
        {
            "house/__init__.py": "",
            "house/attic/__init__.py": words.format("roof"),
            "house/hall/__init__.py": words.format("door"),
            "house/hall/door.py": "",
        },
    )
    assert rooms_without_words(tree, ["house"]) == [
        'house/__init__.py:1 needs a line "Not here: ..."',
        'house/__init__.py:1 needs a line "Open ``FILE`` first."',
        "house/attic/__init__.py:1 says to open roof first, which is not there",
    ]


def planted(root: Path, files: dict[str, str]) -> SourceTree:
    """A tree of these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return SourceTree(root)


def test_relative_imports_are_not_used():
    broken = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports relatively; write the whole name"
        for part in PARTS
        for path in TREE.sources(part)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not broken, lines_of(broken)


def pure_files() -> list[Path]:
    every = [path for part in PARTS for path in TREE.sources(part)]
    return [path for path in every if within(TREE.module_of(path), PURE)]


def test_what_decides_has_no_clock_and_no_io():
    broken = [
        f"{found}; {IMPURE[found.module.split('.')[0]]}"
        for path in pure_files()
        for found in TREE.imports(path)
        if found.module.split(".")[0] in IMPURE
    ]
    assert not broken, lines_of(broken)


def test_what_decides_imports_nothing_of_ours_that_has():
    broken = []
    for path in pure_files():
        for found in TREE.imports(path):
            chain = TREE.path_to(found.module, set(IMPURE), {TREE.module_of(path)})
            if chain:
                broken.append(f"{found}, which comes to {' -> '.join(chain)}; split the module")
    assert not broken, lines_of(broken)


def test_what_decides_uses_only_the_random_numbers_it_was_given():
    broken = []
    for path in pure_files():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Attribute):
                dice = ast.unparse(node)
                seeded = ("random.Random", *NUMPY_SEEDED)
                if re.match(r"(np\.|numpy\.)?random\.", dice) and dice not in seeded:
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    broken.append(f"{place} calls {dice}; take a random.Random as an argument")
    assert not broken, lines_of(broken)


def test_daemons_import_nothing_heavy():
    chain = TREE.path_to("runs.daemons", HEAVY, set())
    assert not chain, f"{' -> '.join(chain or [])}: import it where it is used, within a function"


def test_files_are_whole_ideas():
    every = [path for part in (*PARTS, "benchmarks", "tests") for path in TREE.sources(part)]
    broken = [
        f"{path.relative_to(ROOT)} has {length} lines; {fix}"
        for path, length in lengths(every).items()
        for fix in whole_idea(path.relative_to(ROOT), length)
    ]
    assert not broken, lines_of(broken)


def whole_idea(path: Path, length: int) -> Iterator[str]:
    """What is wrong with a file's length."""
    if length > LINES_MAX:
        yield f"split it by its ideas, at most {LINES_MAX}"
    module = ".".join(path.with_suffix("").parts)
    small = length < LINES_MIN and path.name not in ("__init__.py", "__main__.py", "conftest.py")
    if small and not within(module, (*SMALL, "benchmarks", "tests")):
        yield f"put it beside what uses it: at least {LINES_MIN}, or an interface"


def test_packages_hold_several_modules():
    broken = [
        f"{folder.relative_to(ROOT)}/ has {len(modules)} modules; make it one file, or put it above"
        for part in PARTS
        for folder in TREE.packages(part)
        if len(modules := modules_in(folder)) < MODULES_MIN
    ]
    assert not broken, lines_of(broken)


def modules_in(folder: Path) -> list[Path]:
    """The modules and packages of a package, without its ``__init__.py``."""
    files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    return files + [path.parent for path in folder.glob("*/__init__.py")]


def test_folders_are_not_deep():
    broken = [
        f"{path.relative_to(ROOT)} is {depth} folders deep; at most {DEPTH_MAX}"
        for part in PARTS
        for path in TREE.sources(part)
        if (depth := len(path.relative_to(ROOT).parts) - 1) > DEPTH_MAX
    ]
    assert not broken, lines_of(broken)


def test_functions_have_few_parameters():
    broken = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {count} parameters; "
        f"at most {PARAMETERS_MAX}: give it the object that has them"
        for part in PARTS
        if part not in OPTIONS_AS_KEYWORDS
        for path in TREE.sources(part)
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if (count := parameters(node.args)) > PARAMETERS_MAX
    ]
    assert not broken, lines_of(broken)


def parameters(given: ast.arguments) -> int:
    """How many parameters a function has, besides itself."""
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in every)


def test_the_house_does_not_grow():
    """Ratchets: lower one with each change that makes it possible, raise none."""
    sizes = house()
    print(sizes)
    broken = [
        f"{what}: {size}; {'at least' if what == MEDIAN else 'at most'} {RATCHETS[what]}"
        for what, size in sizes.items()
        if (size < RATCHETS[what] if what == MEDIAN else size > RATCHETS[what])
    ]
    assert not broken, lines_of(broken)


def house() -> dict[str, float]:
    """The sizes of the product, without benchmarks and tests, and of the documents."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    others = ("benchmarks/", "tests/")
    files = lengths(ROOT / name for name in listed if not name.startswith(others))
    docs = [path for path in (ROOT / "docs").rglob("*.md") if "reference" not in path.parts]
    return {
        "lines": sum(files.values()),
        "files": len(files),
        MEDIAN: statistics.median(files.values()),
        "words of docs/": sum(len(path.read_text(encoding="utf-8").split()) for path in docs),
    }


def lengths(files: Iterable[Path]) -> dict[Path, int]:
    """{file: its lines}"""
    return {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}


def test_architecture_page_names_the_folders_there_are():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE))
    there = {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and not path.name.startswith(".") and any(path.rglob("*.py"))
    } - {"build", "dist", "docs"}
    assert named - {"docs"} == there, "ARCHITECTURE.md: the table of folders, against the folders"


def test_architecture_page_has_the_table_that_is_tested():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \|.*\| ([^|]*) \|$", text, re.MULTILINE)
    named = {part: set(re.findall(r"`([\w.]+)`", allowed)) for part, allowed in rows}
    for part, allowed in MAY_IMPORT.items():
        if part not in APPLICATION:
            assert named[part] == set(allowed), f"ARCHITECTURE.md: what {part}/ may import"


def test_every_module_says_what_it_is_for():
    broken = [
        f"{path.relative_to(ROOT)}:1 has no docstring; say what the file is for"
        for part in PARTS
        for path in TREE.sources(part)
        if not ast.get_docstring(parsed(path))
    ]
    assert not broken, lines_of(broken)


def test_parts_are_imported_by_the_one_name():
    broken = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {name}; write {NAME}.{name}"
        for part in (*PARTS, "benchmarks", "tests")
        for path in TREE.sources(part)
        for node in ast.walk(parsed(path))
        for name in _imported_names(node)
        if name.split(".")[0] in (*PARTS, "benchmarks")
    ]
    assert not broken, lines_of(broken)


def _imported_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
