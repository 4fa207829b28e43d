"""Railyard: a data centre that fits in a laptop.  All that people import is in this one name.

    from railyard import Job, Lines         what files of jobs and schedulers need
    import railyard                         railyard.simulate(...), railyard.compare(...)

The parts are its packages: ``railyard.netemu``, ``railyard.jobs``, and so on; in a checkout those
of the daemons are links to the folders beside it.  A name below is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railyard.api.arguments import Advice
    from railyard.api.cluster import Cluster
    from railyard.api.listings import schedulers, topologies
    from railyard.api.results import Comparison, Picture, Run
    from railyard.api.studies import Reproduction, compare, reproduce, simulate
    from railyard.cluster.errors import RailyardError, UsageError, require
    from railyard.jobs.formats import FixedRecords, Lines
    from railyard.jobs.model import Job, Stage
    from railyard.jobs.operators import Map, Reduce
    from railyard.netemu.circuits.policies import CircuitPolicy, StatelessPolicy
    from railyard.netemu.model.flows import FlowSpec
    from railyard.netemu.schedulers.base import FlowScheduler, Holds, Plan, Serves, Traffic
    from railyard.resourcemanager.interface.decisions import (
        Copy,
        Decision,
        MoveInput,
        Pass,
        Place,
        Proposal,
        Reserve,
        Take,
        Wait,
        Withdraw,
    )
    from railyard.resourcemanager.interface.estimates import Estimates
    from railyard.resourcemanager.interface.policies import (
        CopyPolicy,
        DataPolicy,
        FlowPolicy,
        OrderPolicy,
        Policy,
        ShufflePolicy,
        TaskPolicy,
    )
    from railyard.resourcemanager.interface.recipe import Recipe
    from railyard.resourcemanager.interface.views import ClusterView, JobView, SlotView, StageView

#: name -> the module that has it
_MODULE_OF = {
    name: f"railyard.{module}"
    for module, names in {
        "cluster.errors": "RailyardError UsageError require",
        "jobs.formats": "FixedRecords Lines",
        "jobs.model": "Job Stage",
        "jobs.operators": "Map Reduce",
        "netemu.circuits.policies": "CircuitPolicy StatelessPolicy",
        "netemu.model.flows": "FlowSpec",
        "netemu.schedulers.base": "FlowScheduler Holds Plan Serves Traffic",
        "resourcemanager.interface.decisions": (
            "Copy Decision MoveInput Pass Place Proposal Reserve Take Wait Withdraw"
        ),
        "resourcemanager.interface.estimates": "Estimates",
        "resourcemanager.interface.policies": (
            "CopyPolicy DataPolicy FlowPolicy OrderPolicy Policy ShufflePolicy TaskPolicy"
        ),
        "resourcemanager.interface.recipe": "Recipe",
        "resourcemanager.interface.views": "ClusterView JobView SlotView StageView",
        "api.arguments": "Advice",
        "api.cluster": "Cluster",
        "api.listings": "schedulers topologies",
        "api.results": "Comparison Picture Run",
        "api.studies": "Reproduction compare reproduce simulate",
    }.items()
    for name in names.split()
}

__all__ = [
    "Advice", "CircuitPolicy", "Cluster", "ClusterView", "Comparison", "Copy", "CopyPolicy",
    "DataPolicy", "Decision", "Estimates", "FixedRecords", "FlowPolicy", "FlowScheduler",
    "FlowSpec", "Holds", "Job", "JobView", "Lines", "Map", "MoveInput", "OrderPolicy", "Pass",
    "Picture", "Place", "Plan", "Policy", "Proposal", "RailyardError", "Recipe", "Reduce",
    "Reproduction", "Reserve", "Run", "Serves", "ShufflePolicy", "SlotView", "Stage", "StageView",
    "StatelessPolicy", "Take", "TaskPolicy", "Traffic", "UsageError", "Wait", "Withdraw", "compare",
    "reproduce", "require", "schedulers", "simulate", "topologies",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
