"""The documents' code: commands have the options they show, Python and TOML can be read, links hit.

The light half of what ``scripts/docs`` checks when it builds the site; nothing is run here.
"""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from functools import cache
from pathlib import Path

import click
import pytest

from docs.reference_pages import PAGES
from railyard.cli.commands.registry import railyard
from railyard.cluster.errors import UsageError

ROOT = Path(__file__).parent.parent
#: {page that ``scripts/docs`` writes: what makes its text}
GENERATED = {ROOT / "docs" / "reference" / name: made for name, made in PAGES.items()}
PAGES_OF_PEOPLE = sorted(
    {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")}
    - set(GENERATED)
)
EVERY_PAGE = [*PAGES_OF_PEOPLE, *GENERATED]
#: {script: the command that it calls}
SCRIPTS = {
    "run-job": "run",
    "compare": "compare",
    "simulate": "simulate",
    "start-cluster": "up",
    "stop-cluster": "down",
    "bench": "bench",
}
FENCED = re.compile(r"^```([\w{}]*)\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(rf"^    (?:\.venv/bin/)?(railyard|scripts/(?:{'|'.join(SCRIPTS)}))(?!\S)(.*)$")
LINK = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")


@cache
def text_of(page: Path) -> str:
    return GENERATED[page]() if page in GENERATED else page.read_text(encoding="utf-8")


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def code_of(text: str, language: str) -> list[str]:
    return [code for name, code in FENCED.findall(text) if name == language]


def commands(text: str) -> list[list[str]]:
    """The words of each command in an indented block, without a remark after two spaces or more."""
    found = []
    for line in FENCED.sub("", text.replace("\\\n", "")).splitlines():
        if match := COMMAND.match(line):
            name, rest = match.groups()
            typed = re.split(r"\s{3,}|\s+#\s|\s&$|\s>|\s\|", rest)[0]
            script = name.removeprefix("scripts/")
            words = shlex.split(typed)
            found.append(words if name == "railyard" else [SCRIPTS[script], *words])
    return found


def wrong(words: list[str], command: click.Command = railyard) -> str:
    """What click does not know of a command's words; "" = nothing.  Carries nothing out."""
    context = click.Context(command, info_name="railyard")
    try:
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(context, words[0])
            assert found is not None
            command, words = found, words[1:]
            context = click.Context(command, parent=context, info_name=command.name)
        command.make_parser(context).parse_args(list(words))
    except (click.UsageError, UsageError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("page", EVERY_PAGE, ids=ids)
def test_commands_have_the_options_that_pages_show(page):
    text = text_of(page)
    if page.name == "commands.md":  # their usage, with placeholders
        return
    broken = [f"{' '.join(words)}: {what}" for words in commands(text) if (what := wrong(words))]
    assert broken == []


@pytest.mark.parametrize("page", EVERY_PAGE, ids=ids)
def test_code_can_be_read(page):
    text = text_of(page)
    for code in code_of(text, "python"):
        ast.parse(code)
    for code in code_of(text, "toml"):
        tomllib.loads(code)


@pytest.mark.parametrize("page", EVERY_PAGE, ids=ids)
def test_links_hit_headings(page):
    text = FENCED.sub("", text_of(page))
    broken = [
        f"{file}#{anchor}"
        for file, anchor in LINK.findall(text)
        if (target := (page.parent / file) if file else page).suffix == ".md"
        and anchor not in anchors(text_of(target.resolve()))
    ]
    assert broken == []


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as forges and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_on_the_site():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    entries = re.findall(r"^[\w./*-]+$", "\n".join(code_of(index, "{toctree}")), re.M)
    folder = ROOT / "docs"
    listed = {path.resolve() for entry in entries for path in folder.glob(f"{entry}.md")}
    listed |= {(folder / f"{entry}.md").resolve() for entry in entries if "*" not in entry}
    there = set(PAGES_OF_PEOPLE) - {folder / "index.md"}
    assert listed - set(GENERATED) == there, "docs/index.md: its lists of pages, against the pages"


def test_troubleshooting_quotes_what_the_code_says():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.*?) \| ", page, re.M)
    quoted = [words for cell in cells for words in re.findall(r"`([^`]+)`", cell)]
    quoted = [words for words in quoted if not words.startswith("pip ")]
    assert len(quoted) > 20
    parts = ("cluster", "dfs", "jobs", "netemu", "nodemanager", "resourcemanager", "railyard")
    files = [path for part in parts for path in (ROOT / part).rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in [*files, ROOT / "scripts" / "setup"]]
    code = re.sub(r'"\s*\n?\s*f?"', "", "\n".join(texts))  # strings that go on in the next line
    assert [words for words in quoted if words not in code] == []


def test_the_version_to_cite_is_the_one_that_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    assert cited == [project["version"]]


def test_what_is_wrong_is_found():
    assert wrong(["run", "terasort", "--sise", "1GB"])
    assert wrong(["network", "sett", "r3.up", "1Gbps"])
    assert not wrong(["network", "set", "r3.up", "1Gbps"])
    text = "Do\n\n    scripts/run-job a --get b      remark\n    .venv/bin/railyard status\n"
    assert commands(text) == [["run", "a", "--get", "b"], ["status"]]
    assert anchors("## `[ocs]` of a rack\n") == {"ocs-of-a-rack"}
