"""Co-scheduler's experiments: Fig. 5 to 10, the delta and W of its sections II and VI, its load.

Source: Li and Shen, Co-Scheduler: A Coflow-Aware Data-Parallel Job Scheduler in Hybrid
Electrical/Optical Datacenter Networks, IEEE/ACM Transactions on Networking, 2022, section V.
All systems go with Sunflow, as there.

Not here: how Co-scheduler works (``resourcemanager.schedulers.co_scheduler``).
Open ``setups`` first.
"""

from __future__ import annotations

from railyard.scripts.reproduce.figures import Paper
from railyard.scripts.reproduce.papers.co_scheduler.choices import (
    choices,
    coarsening,
    load,
    printed,
)
from railyard.scripts.reproduce.papers.co_scheduler.main import figure_5a, figure_5b, figure_6
from railyard.scripts.reproduce.papers.co_scheduler.sweeps import (
    delta,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    wavelengths,
)

PAPER = Paper(
    title="Co-scheduler (Li and Shen, IEEE/ACM Transactions on Networking, 2022)",
    figures={
        "fig5a": figure_5a,
        "fig5b": figure_5b,
        "fig6": figure_6,
        "load": load,
        "printed": printed,
        "choices": choices,
        "coarsening": coarsening,
        "fig7": figure_7,
        "fig8": figure_8,
        "fig9": figure_9,
        "fig10": figure_10,
        "delta": delta,
        "wavelengths": wavelengths,
    },
    seeds=7,
    quick_seeds=7,
    fewer_quick_seeds=dict.fromkeys(
        (
            "printed",
            "choices",
            "coarsening",
            "fig7",
            "fig8",
            "fig9",
            "fig10",
            "delta",
            "wavelengths",
        ),
        1,
    ),
    first_seed=4,  # 1 to 3 were used to choose the reading
)
