"""Railyard: a data centre that fits in a laptop.  All that people import is in this one name.

    from railyard import Job, Lines         what files of jobs and schedulers need
    import railyard                         railyard.simulate(...), railyard.compare(...)

The parts are packages of this one: ``railyard.netemu``, ``railyard.jobs``, and so on.  In a
checkout those of the daemons are links to the folders beside this one.  Each name below is imported
when it is used, so that no process pays for what it does not need.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railyard.api.arguments import Advice as Advice
    from railyard.api.cluster import Cluster as Cluster
    from railyard.api.listings import schedulers as schedulers
    from railyard.api.listings import topologies as topologies
    from railyard.api.results import Comparison as Comparison
    from railyard.api.results import Picture as Picture
    from railyard.api.results import Run as Run
    from railyard.api.studies import Reproduction as Reproduction
    from railyard.api.studies import compare as compare
    from railyard.api.studies import reproduce as reproduce
    from railyard.api.studies import simulate as simulate
    from railyard.cluster.errors import RailyardError as RailyardError
    from railyard.cluster.errors import UsageError as UsageError
    from railyard.cluster.errors import require as require
    from railyard.jobs.formats import FixedRecords as FixedRecords
    from railyard.jobs.formats import Lines as Lines
    from railyard.jobs.model import Job as Job
    from railyard.jobs.model import Stage as Stage
    from railyard.jobs.operators import Map as Map
    from railyard.jobs.operators import Reduce as Reduce
    from railyard.netemu.circuits.policies import CircuitPolicy as CircuitPolicy
    from railyard.netemu.circuits.policies import StatelessPolicy as StatelessPolicy
    from railyard.netemu.model.flows import FlowSpec as FlowSpec
    from railyard.netemu.schedulers.base import FlowScheduler as FlowScheduler
    from railyard.netemu.schedulers.base import Holds as Holds
    from railyard.netemu.schedulers.base import Plan as Plan
    from railyard.netemu.schedulers.base import Serves as Serves
    from railyard.netemu.schedulers.base import Traffic as Traffic
    from railyard.resourcemanager.interface.decisions import Copy as Copy
    from railyard.resourcemanager.interface.decisions import Decision as Decision
    from railyard.resourcemanager.interface.decisions import MoveInput as MoveInput
    from railyard.resourcemanager.interface.decisions import Pass as Pass
    from railyard.resourcemanager.interface.decisions import Place as Place
    from railyard.resourcemanager.interface.decisions import Proposal as Proposal
    from railyard.resourcemanager.interface.decisions import Reserve as Reserve
    from railyard.resourcemanager.interface.decisions import Take as Take
    from railyard.resourcemanager.interface.decisions import Wait as Wait
    from railyard.resourcemanager.interface.decisions import Withdraw as Withdraw
    from railyard.resourcemanager.interface.estimates import Estimates as Estimates
    from railyard.resourcemanager.interface.policies import CopyPolicy as CopyPolicy
    from railyard.resourcemanager.interface.policies import DataPolicy as DataPolicy
    from railyard.resourcemanager.interface.policies import FlowPolicy as FlowPolicy
    from railyard.resourcemanager.interface.policies import OrderPolicy as OrderPolicy
    from railyard.resourcemanager.interface.policies import Policy as Policy
    from railyard.resourcemanager.interface.policies import ShufflePolicy as ShufflePolicy
    from railyard.resourcemanager.interface.policies import TaskPolicy as TaskPolicy
    from railyard.resourcemanager.interface.recipe import Recipe as Recipe
    from railyard.resourcemanager.interface.views import ClusterView as ClusterView
    from railyard.resourcemanager.interface.views import JobView as JobView
    from railyard.resourcemanager.interface.views import SlotView as SlotView
    from railyard.resourcemanager.interface.views import StageView as StageView

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

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
