"""Tetrium's experiments: Fig. 5, 6 and 8 to 12, and section 6.3.1.

Source: Hung et al., Wide-Area Analytics with Multiple Resources, EuroSys 2018, section 6.

Not here: Fig. 7, the time of decisions, which is ``scripts/bench placement``.
Open ``setups`` first.
"""

from __future__ import annotations

from railyard.scripts.reproduce.figures import Paper
from railyard.scripts.reproduce.papers.tetrium.deployment import figure_5, figure_6
from railyard.scripts.reproduce.papers.tetrium.simulation import (
    figure_8,
    figure_9,
    figure_10,
    figure_11,
    figure_12,
    reverse,
)

PAPER = Paper(
    title="Tetrium (Hung et al., EuroSys 2018)",
    figures={
        "fig5": figure_5,
        "fig6": figure_6,
        "fig8": figure_8,
        "fig9": figure_9,
        "reverse": reverse,
        "fig10": figure_10,
        "fig11": figure_11,
        "fig12": figure_12,
    },
)
