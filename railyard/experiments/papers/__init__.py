"""The list of papers with reproducible experiments; each has a file with its figures.

Not here: what figures are made of (``experiments.figures``) and how they are run
(``experiments.reproduction``).
Open ``corral`` first.
"""

from __future__ import annotations

import importlib

from railyard.cluster.errors import unknown_name
from railyard.experiments.figures import Paper

#: name -> the module that has it as ``PAPER``
PAPERS = {
    "co-scheduler": "railyard.experiments.papers.co_scheduler",
    "corral": "railyard.experiments.papers.corral",
    "joint": "railyard.experiments.papers.joint",
    "shadow": "railyard.experiments.papers.shadow",
    "tetrium": "railyard.experiments.papers.tetrium",
}


def paper(name: str) -> Paper:
    """The paper of that name; raises ``UsageError``."""
    if name not in PAPERS:
        raise unknown_name("paper", name, PAPERS)
    found = importlib.import_module(PAPERS[name]).PAPER
    assert isinstance(found, Paper)
    return found
