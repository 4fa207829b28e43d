"""Packages on Python's path without an installer: a tutorial's files, or a test's own."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.command_line import ROOT


def install(page: str, folder: Path) -> None:
    """Write the files that a page of docs/ shows, and what an installer would make of them."""
    text = (ROOT / "docs" / page).read_text()
    for name, content in re.findall(r"^`(\S+)`\n\n```\w+\n(.*?)^```$", text, re.M | re.S):
        (folder / name).write_text(content)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    _as_installed(folder, project["name"], project["entry-points"])


def schedulers(folder: Path, module: str, source: str, **points: str) -> None:
    """Write a module, and what an installer would make of it: schedulers by entry point."""
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(source)
    _as_installed(folder, module, {"railyard.schedulers": points})


def own_tests_pass(package: Path, environment: dict[str, str], count: int) -> None:
    """Run the tests of a tutorial's package; there are so many."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", package],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} passed" in done.stdout


def _as_installed(folder: Path, name: str, groups: dict[str, dict[str, str]]) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{name} = {where}" for name, where in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
