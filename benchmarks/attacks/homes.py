"""A RAILYARD_HOME that holds a user's own things, whatever they are called: they stay as they are.

What Railyard calls its own things is seen from a home of its own; then a user's file, folder and
link of each of these names is there before Railyard comes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks._grounds.home import SMALL, Home, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials

_THESIS = "the only copy\n"


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Attack; ``quick`` leaves out those that take long."""
    return run_trials("homes", trials(), quick, seed, only)


def trials() -> list[Trial]:
    """All kinds of things that may be in a home."""
    named = {"file": _own_file, "folder": _own_folder, "link": _own_link}
    every = [
        Trial(
            name=f"our-names-{name}",
            row=f"a {name} of the user's under each name that Railyard uses",
            attack=partial(_our_names, make),
            quick=name == "folder",
        )
        for name, make in named.items()
    ]
    every += [
        Trial(
            name="like-ours",
            row="folders that look like a dead cluster's",
            attack=_like_ours,
            quick=True,
        ),
        Trial(name="notes", row="a thesis in c-notes", attack=_notes),
        Trial(name="linked", row="links to a user's folders", attack=_linked, quick=True),
        Trial(name="home-is-link", row="a home that is a link", attack=_home_is_link),
        Trial(name="home-is-file", row="a home that is a file", attack=_home_is_file),
    ]
    return every


# What is there, and whether it stays -------------------------------------------------------------
def _tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every entry in a folder: its kind, mode, owner, time and content."""
    found: dict[str, tuple[object, ...]] = {}
    for path in _all_in(folder):
        status = path.lstat()
        content: object = ""
        if path.is_symlink():
            content = path.readlink()
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        changed_ns = 0 if path.is_dir() and not path.is_symlink() else status.st_mtime_ns
        found[str(path)] = (status.st_mode, status.st_uid, changed_ns, content)
    return found


def _all_in(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _all_in(path)


def _use(home: Home, theirs: list[Path]) -> None:
    """Use a home with clusters that end and that are killed; the user's files stay as they are."""
    before = {name: entry for folder in theirs for name, entry in _tree(folder).items()}
    require(before, "the user has nothing to lose")
    steps = (
        ("up", "--topology", str(SMALL)),
        ("kill",),
        ("run", "topwords", "--size", "100MB", "--topology", str(SMALL)),
        ("up", "--topology", str(SMALL)),
        ("down",),
    )
    for step in steps:
        if step == ("kill",):
            for row in home.rows("Supervisor"):
                os.kill(row["pid"], signal.SIGKILL)
            home.wait_for("the cluster to die", lambda: not home.living(), 10)
        else:
            home.run(*step).require_words()
        now = {name: entry for folder in theirs for name, entry in _tree(folder).items()}
        lost = [name for name, entry in before.items() if now.get(name) != entry]
        shown = ", ".join(f"{name} {'changed' if name in now else 'gone'}" for name in lost[:3])
        require(not lost, f"after railyard {' '.join(step)}: {shown}")
    require(not home.living(), "processes are left")


def _write_thesis(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "thesis.txt").write_text(_THESIS)
    (folder / "drafts").mkdir(exist_ok=True)
    (folder / "drafts" / "chapter1.txt").write_text(_THESIS * 1000)


# Names that Railyard uses ------------------------------------------------------------------------
def _own_file(path: Path, _: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_THESIS)


def _own_folder(path: Path, _: Path) -> None:
    _write_thesis(path)


def _own_link(path: Path, elsewhere: Path) -> None:
    target = elsewhere / path.name
    _write_thesis(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def _names_used(home: Home) -> list[Path]:
    """What a live cluster puts into an empty home, down to the folders of clusters."""
    home.up()
    ours = set(home.run_folders())
    used = [
        path.relative_to(home.path)
        for path in _all_in(home.path)
        if not ours.intersection(path.parents)
    ]
    home.run("down").require_ok()
    home.require_nothing_left()
    shutil.rmtree(home.path)
    home.path.mkdir(mode=0o700)
    return used


def _our_names(make: Callable[[Path, Path], None], home: Home) -> None:
    used = _names_used(home)
    elsewhere = home.scratch / "elsewhere"
    elsewhere.mkdir()
    for name in used:
        shutil.rmtree(home.path)
        home.path.mkdir(mode=0o700)
        make(home.path / name, elsewhere)
        _use(home, [home.path, elsewhere])


# Things that look like Railyard's -----------------------------------------------------------------
def _like_ours(home: Home) -> None:
    """A user's copy of a dead cluster's folder, with things of the user's own in it."""
    home.up()
    ours = home.run_folder()
    shape = [path.relative_to(home.path) for path in [ours, *_all_in(ours)] if path.is_dir()]
    files = [path.name for path in ours.iterdir() if path.is_file()]
    home.run("down").require_ok()
    for suffix in ("", "x"):
        for path in shape:
            named = Path(*(part.replace(ours.name, ours.name + suffix) for part in path.parts))
            (home.path / named).mkdir(parents=True, exist_ok=True)
        copy = home.path / ours.relative_to(home.path).with_name(ours.name + suffix)
        _write_thesis(copy)
        for name in files:
            (copy / name).write_text("{}\n")
    _use(home, [home.path])


def _notes(home: Home) -> None:
    for name in ("c-notes", "c-12345678", "clusters", "c-", "run", "lock.d"):
        _write_thesis(home.path / name)
    _use(home, [home.path])


def _linked(home: Home) -> None:
    elsewhere = home.scratch / "elsewhere"
    _write_thesis(elsewhere)
    (elsewhere / "alive").write_text(_THESIS)
    (elsewhere / "cluster.json").write_text("{}")
    for name in ("c-link", "c-0badcafe", "current"):
        (home.path / name).symlink_to(elsewhere)
    (home.path / "lock").symlink_to(elsewhere / "thesis.txt")
    _use(home, [home.path, elsewhere])


def _home_is_link(home: Home) -> None:
    elsewhere = home.scratch / "elsewhere"
    _write_thesis(elsewhere / "c-notes")
    (elsewhere / "lock").write_text(_THESIS)
    home.path.rmdir()
    home.path.symlink_to(elsewhere)
    _use(home, [elsewhere])


def _home_is_file(home: Home) -> None:
    home.path.rmdir()
    home.path.write_text(_THESIS)
    for step in (("run", "topwords", "--size", "100MB"), ("up",), ("status",), ("down",)):
        ran = home.run(*step)
        ran.require_words()
        ran.require(ran.status == 2, "should say that the home can't be used")
    require(home.path.read_text() == _THESIS, "the file was changed")
