"""Railyard: a data centre that fits in a laptop.  What authors of jobs and schedulers import.

    from railyard import Job, Lines

The parts are packages of this one: ``railyard.netemu``, ``railyard.jobs``, and so on.  In a
checkout they are links to the folders beside this one.  Each name below is imported when it is
asked for, so that no process pays for what it does not use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railyard.cluster.errors import require
    from railyard.jobs.formats import FixedRecords, Lines
    from railyard.jobs.model import Job, Stage
    from railyard.jobs.operators import Map, Reduce
    from railyard.netemu.circuits.policies.base import CircuitPolicy, StatelessPolicy
    from railyard.netemu.model.flows import FlowSpec
    from railyard.netemu.schedulers.base import FlowScheduler
    from railyard.netemu.schedulers.filling import fill, serve_in_order
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
        "cluster.errors": "require",
        "jobs.formats": "FixedRecords Lines",
        "jobs.model": "Job Stage",
        "jobs.operators": "Map Reduce",
        "netemu.circuits.policies.base": "CircuitPolicy StatelessPolicy",
        "netemu.model.flows": "FlowSpec",
        "netemu.schedulers.base": "FlowScheduler",
        "netemu.schedulers.filling": "fill serve_in_order",
        "resourcemanager.interface.decisions": (
            "Copy Decision MoveInput Pass Place Proposal Reserve Take Wait Withdraw"
        ),
        "resourcemanager.interface.estimates": "Estimates",
        "resourcemanager.interface.policies": (
            "CopyPolicy DataPolicy FlowPolicy OrderPolicy Policy ShufflePolicy TaskPolicy"
        ),
        "resourcemanager.interface.recipe": "Recipe",
        "resourcemanager.interface.views": "ClusterView JobView SlotView StageView",
    }.items()
    for name in names.split()
}

__all__ = [
    "CircuitPolicy",
    "ClusterView",
    "Copy",
    "CopyPolicy",
    "DataPolicy",
    "Decision",
    "Estimates",
    "FixedRecords",
    "FlowPolicy",
    "FlowScheduler",
    "FlowSpec",
    "Job",
    "JobView",
    "Lines",
    "Map",
    "MoveInput",
    "OrderPolicy",
    "Pass",
    "Place",
    "Policy",
    "Proposal",
    "Recipe",
    "Reduce",
    "Reserve",
    "ShufflePolicy",
    "SlotView",
    "Stage",
    "StageView",
    "StatelessPolicy",
    "Take",
    "TaskPolicy",
    "Wait",
    "Withdraw",
    "fill",
    "require",
    "serve_in_order",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)
