"""In-Place: tasks where their input is, fair shares for jobs; Tetrium's baseline.

Source: Hung et al., EuroSys 2018, section 6.1: what Spark does, with delay scheduling within a job,
stage by stage.
"""

from __future__ import annotations

from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers.delay import DelayTasks
from railyard.resourcemanager.schedulers.fair import FairOrder

RECIPE = Recipe(
    name="in-place",
    source="Hung et al., EuroSys 2018, section 6.1",
    order=FairOrder,
    tasks=DelayTasks,
    settings={"shuffle.slowstart": 1.0},
)
