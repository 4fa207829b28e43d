"""Corral's experiments: Fig. 6 to 14, and what the paper leaves open.

Source: Jalaparti et al., Network-Aware Scheduling for Data-Parallel Jobs: Plan When You Can,
SIGCOMM 2015, section 6.  Yarn-CS is ``capacity``.

Not here: how Corral works (``resourcemanager.schedulers.corral``).  Open ``setups`` first.
"""

from __future__ import annotations

from railyard.scripts.reproduce.figures import Paper
from railyard.scripts.reproduce.papers.corral.choices import choices, coarsening
from railyard.scripts.reproduce.papers.corral.mapreduce import (
    figure_6,
    figure_7,
    figure_8,
    figure_9,
)
from railyard.scripts.reproduce.papers.corral.others import figure_10, figure_11, figure_14
from railyard.scripts.reproduce.papers.corral.sensitivity import figure_12, figure_13

PAPER = Paper(
    title="Corral (Jalaparti et al., SIGCOMM 2015)",
    figures={
        "fig6": figure_6,
        "fig7": figure_7,
        "fig8": figure_8,
        "fig9": figure_9,
        "fig10": figure_10,
        "fig11": figure_11,
        "fig12": figure_12,
        "fig13": figure_13,
        "fig14": figure_14,
        "choices": choices,
        "coarsening": coarsening,
    },
    seeds=7,
    quick_seeds=7,
    fewer_quick_seeds={
        **dict.fromkeys(("fig10", "fig11", "fig12", "fig13", "fig14"), 3),
        **dict.fromkeys(("choices", "coarsening"), 2),
    },
    first_seed=4,
)
