"""The circuit policies: which pairs of racks should have circuits.  A file and a line for each.

Not here: circuits, and the flows on them.
Open ``base`` first, then ``sunflow``.

Another package adds a policy through an entry point of the group "railyard.circuit_policies":

    [project.entry-points."railyard.circuit_policies"]
    mine = "my_package.my_module:MyPolicy"
"""

from __future__ import annotations

from railyard.cluster.errors import unknown_name
from railyard.cluster.plugins import with_plugins
from railyard.netemu.circuits.policies.base import CircuitPolicy, StatelessPolicy, Switch
from railyard.netemu.circuits.policies.sunflow import SunflowCircuits

CIRCUIT_POLICIES: dict[str, type[CircuitPolicy]] = {kind.name: kind for kind in (SunflowCircuits,)}


def circuit_policy(name: str, switch: Switch) -> CircuitPolicy:
    """A new circuit policy of that name for a switch; ``UsageError`` if there is none."""
    if name in CIRCUIT_POLICIES:  # without a look at all packages
        return CIRCUIT_POLICIES[name](switch)
    kinds = with_plugins("circuit policy", "railyard.circuit_policies", CIRCUIT_POLICIES, _checked)
    if name not in kinds:
        raise unknown_name("circuit policy", name, kinds)
    return kinds[name](switch)


def _checked(kind: object) -> type[CircuitPolicy]:
    if not (isinstance(kind, type) and issubclass(kind, SunflowCircuits | StatelessPolicy)):
        raise TypeError(f"{kind!r}, no subclass of StatelessPolicy")
    return kind
