"""Reference pages of the documentation, written from the code into ``docs/reference/``.

``scripts/docs`` writes them when it builds the site; they are not committed.

Not here: pages that people write (``docs/``).
Open ``interfaces`` first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from railyard.reference.files import files_page
from railyard.reference.interfaces import accepted_page, command_page
from railyard.reference.python import python_page
from railyard.reference.settings import (
    flow_scheduler_page,
    scheduler_page,
    simulation_page,
    topology_page,
)

#: {file in ``docs/reference/``: what makes its text}
PAGES: dict[str, Callable[[], str]] = {
    "accepted.md": accepted_page,
    "commands.md": command_page,
    "files.md": files_page,
    "flow-schedulers.md": flow_scheduler_page,
    "python.md": python_page,
    "schedulers.md": scheduler_page,
    "simulation.md": simulation_page,
    "topology-keys.md": topology_page,
}


def write_pages(folder: Path) -> None:
    """Write all pages into a folder."""
    folder.mkdir(exist_ok=True)
    for name, made in PAGES.items():
        (folder / name).write_text(made(), encoding="utf-8")
