"""A tutorial's files as a reader has them, installed without an installer."""

import re
import tomllib
from pathlib import Path

from tests.command_line import ROOT


def install(page: str, folder: Path) -> None:
    """Write the files that a page of docs/ shows, and what an installer would make of them."""
    text = (ROOT / "docs" / page).read_text()
    for name, content in re.findall(r"^`(\S+)`\n\n```\w+\n(.*?)^```$", text, re.M | re.S):
        (folder / name).write_text(content)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {where}" for name, where in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
