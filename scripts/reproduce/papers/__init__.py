"""The list of papers with reproducible experiments; each has a file or a folder with its figures.

Not here: what figures are made of and how they are run (``reproduce``).
Open ``corral`` first.
"""

from __future__ import annotations

import importlib

from railyard.cluster.errors import unknown_name
from railyard.scripts.reproduce.figures import Paper

#: name -> the module that has it as ``PAPER``
PAPERS = {
    "co-scheduler": "railyard.scripts.reproduce.papers.co_scheduler",
    "corral": "railyard.scripts.reproduce.papers.corral",
    "joint": "railyard.scripts.reproduce.papers.joint",
    "shadow": "railyard.scripts.reproduce.papers.shadow",
    "tetrium": "railyard.scripts.reproduce.papers.tetrium",
}


def paper(name: str) -> Paper:
    """The paper of that name; raises ``UsageError``."""
    if name not in PAPERS:
        raise unknown_name("paper", name, PAPERS)
    found = importlib.import_module(PAPERS[name]).PAPER
    assert isinstance(found, Paper)
    return found
