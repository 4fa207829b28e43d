"""The documents against the files: whatever they name is there."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

from docs.reference_pages import PAGES

ROOT = Path(__file__).parent.parent
#: written by ``scripts/docs`` when it builds the site
GENERATED = {ROOT / "docs" / "reference" / name for name in PAGES}
DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - GENERATED)
FOLDERS = "|".join(
    path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")
)
#: a path from the checkout's root, without placeholders
PATH = re.compile(rf"(?<![\w/.-])(?:{FOLDERS})/[\w./-]*\w")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
#: paths in run folders and on the block store that look like the checkout's
ELSEWHERE = {"jobs/events.jsonl"}


def is_there(path: Path) -> bool:
    return path.exists() or path.resolve() in GENERATED


def named_files(text: str) -> list[str]:
    """The paths in a text, but for those that go on with a placeholder."""
    return [
        found[0]
        for found in PATH.finditer(text)
        if text[found.end() : found.end() + 1] not in ("{", "*", "/")
        and not re.search(r"[A-Z]{3,}", found[0].removesuffix("README.md"))
        and found[0] not in ELSEWHERE
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_name_only_what_exists(document):
    text = document.read_text(encoding="utf-8")
    files = [name for name in named_files(text) if not is_there(ROOT / name)]
    links = [link for link in LINK.findall(text) if not is_there(document.parent / link)]
    assert files + links == [], f"{document.relative_to(ROOT)} names what does not exist"


def test_code_names_only_documents_that_exist():
    named = re.compile(r"(?<![\w/.-])(?:docs/[\w./-]+\.md|[A-Z]{4,}\.md)")
    missing = [
        f"{file.relative_to(ROOT)}: {name}"
        for folder in FOLDERS.split("|")
        for file in (ROOT / folder).rglob("*.py")
        for name in named.findall(file.read_text(encoding="utf-8"))
        if "NNNN" not in name
        if not is_there(ROOT / name)
    ]
    assert missing == []


def test_a_name_of_nothing_is_found():
    text = (
        "read `netemu/nothing.py`, docs/decisions/NNNN-a.md, jobs/x/{a,b}.py, cluster/topology.py"
    )
    assert named_files(text) == ["netemu/nothing.py", "cluster/topology.py"]


def test_every_decision_is_listed():
    pages = {path.name for path in (ROOT / "docs" / "decisions").glob("*.md")} - {"README.md"}
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\(([^)]*\.md)\)", listed)) == sorted(pages), "each once"


def test_the_glossary_says_where_each_term_lives():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| ")]
    rows = [row for row in rows if row[0] not in ("| term", "| ---")]
    assert len(rows) > 50
    broken = [
        f"{row[0][2:]}: {row[-1]}"
        for row in rows
        if not (name := re.search(r"`([\w.]+)` \|$", row[-1])) or not resolves(name[1])
    ]
    assert broken == [], "docs/glossary.md: these cannot be imported"
    terms = [row[0] for row in rows]
    assert len(set(terms)) == len(terms), "docs/glossary.md: one word, one thing"


def test_a_term_that_lives_nowhere_is_found():
    assert resolves("cluster.topology.Topology")
    assert resolves("cluster.topology.Topology.nodes")
    assert resolves("cluster.topology")
    assert not resolves("cluster.topology.Metropolis")
    assert not resolves("cluster.metropolis")


def resolves(name: str) -> bool:
    """Whether ``railyard.NAME`` is a module, or a name in one."""
    try:
        pkgutil.resolve_name(f"railyard.{name}")
    except (ImportError, AttributeError):
        return False
    return True
