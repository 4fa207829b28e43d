"""How a core is made of a cluster's configuration: by the daemon, by replays and by pages.

Not by the simulator, whose core keeps every record (``simulator.cluster``).
"""

from __future__ import annotations

from railyard.cluster.config import ClusterConfig
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.schedulers import recipe_named

#: Ended jobs of which records are kept; yarn.resourcemanager.max-completed-applications.
RECORDS_KEPT = 1000


def core_for(config: ClusterConfig) -> Core:
    """A fresh core; ``UsageError`` for an unknown scheduler or setting."""
    recipe = recipe_named(config.scheduler)
    options = config.scheduler_options
    return Core(config.topology, recipe, options, config.seed, records_kept=RECORDS_KEPT)
