"""Shadow's experiments: Fig. 10 to 23, and what the paper leaves open.

Source: Wu et al., "Shadow: Exploiting the Power of Choice for Efficient Shuffling in MapReduce",
IEEE Transactions on Big Data 2019, section 6.

Not here: how Shadow works (``resourcemanager.schedulers.shadow``).  Open ``setups`` first.
"""

from __future__ import annotations

from railyard.scripts.reproduce.figures import Paper
from railyard.scripts.reproduce.papers.shadow.duplicates import (
    figure_16,
    figure_17,
    figure_20,
    figure_22,
    figure_23,
)
from railyard.scripts.reproduce.papers.shadow.times import (
    figure_10,
    figure_11,
    figure_12,
    figure_13,
    figure_14,
    figure_15,
)
from railyard.scripts.reproduce.papers.shadow.varied import varied

PAPER = Paper(
    title="Wu et al., IEEE Transactions on Big Data 2019",
    figures={
        "fig10": figure_10,
        "fig11": figure_11,
        "fig12": figure_12,
        "fig13": figure_13,
        "fig14": figure_14,
        "fig15": figure_15,
        "fig16": figure_16,
        "fig17": figure_17,
        "fig20": figure_20,
        "fig22": figure_22,
        "fig23": figure_23,
        "varied": varied,
    },
    seeds=5,
    quick_seeds=3,
)
