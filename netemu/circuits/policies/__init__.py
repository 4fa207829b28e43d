"""The circuit policies: which pairs of racks should have circuits.  A file and a line for each.

Not here: circuits, and the flows on them.
Open ``base`` first, then ``sunflow``.

Another package adds a policy through an entry point of the group "railyard.circuit_policies":

    [project.entry-points."railyard.circuit_policies"]
    mine = "my_package.my_module:MyPolicy"
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import entry_points

from railyard.cluster.errors import UsageError, unknown_name
from railyard.netemu.circuits.policies.base import CircuitPolicy
from railyard.netemu.circuits.policies.sunflow import SunflowCircuits
from railyard.netemu.circuits.switch import OpticalSwitch
from railyard.netemu.model.openflows import CoflowDemand

CIRCUIT_POLICIES: dict[str, type[CircuitPolicy]] = {kind.name: kind for kind in (SunflowCircuits,)}


def circuit_policy(name: str, switch: OpticalSwitch) -> CircuitPolicy:
    """A new circuit policy of that name for a switch; ``UsageError`` if there is none."""
    kind = CIRCUIT_POLICIES.get(name) or _of_other_packages(name)
    return kind(switch)


def compiled(policy: CircuitPolicy, demands: Iterable[CoflowDemand]) -> CircuitPolicy:
    """A policy that chooses the same, quicker where coflows are many; or the same one.

    It takes over with these coflows.
    """
    if type(policy) is not SunflowCircuits or policy.switch.wavelengths > 1:
        return policy
    from railyard.netemu.circuits.policies.fast.matching import CompiledSunflowCircuits

    return CompiledSunflowCircuits(policy, demands)


def _of_other_packages(name: str) -> type[CircuitPolicy]:
    points = {point.name: point for point in entry_points(group="railyard.circuit_policies")}
    if name not in points:
        raise unknown_name("circuit policy", name, [*CIRCUIT_POLICIES, *points])
    kind = points[name].load()
    if not (isinstance(kind, type) and issubclass(kind, CircuitPolicy)):
        raise UsageError(f'circuit policy "{name}" ({points[name].value}) is no CircuitPolicy')
    return kind
