"""A fault is a kind, a target and a moment; and the kinds that there are.

Never here: what a fault does in a simulation (``simulator.faults``) and to a live cluster
(``chaos.injector``), and which come when (``chaos.plan``).
"""

from __future__ import annotations

import msgspec

from railyard.cluster.acceptance import Accepted, used


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of a kind, which begins at ``at_s`` and ends ``lasts_s`` later."""

    kind: str
    target: str  #: a node, a rack, a link such as "r3.up", or a daemon
    at_s: float
    lasts_s: float = 0.0
    #: by which computing takes longer, a capacity or slots are multiplied; of lost blocks, every
    #: so many-th one
    amount: float = 1.0


# In simulations ----------------------------------------------------------------------------------
#: The kinds of faults, and what one is like after its kind.
FAULTS = Accepted(
    "faults of a simulation: --faults",
    "fault",
    {
        "node": used("r0n1@10s+20s: it is down"),
        "rack": used("r2@30s+60s: all of its nodes are down"),
        "slow": used("r1n0*4@5s+60s: it computes four times as long"),
        "link": used("r3.up*0.2@5s+60s: it has a fifth of its capacity"),
        "slots": used("r3n0*0.5@5s+60s: it has half of its slots"),
        "blocks": used("r0n0/3@10s: every third replica is lost"),
    },
)

# On live clusters --------------------------------------------------------------------------------
#: {kind of fault: role of the processes that it kills}
KILLS = {
    "kill-resourcemanager": "ResourceManager",
    "kill-namenode": "NameNode",
    "kill-network": "NetworkEmulator",
    "kill-nodemanager": "NodeManager",
    "kill-datanode": "DataNode",
    "kill-gateway": "Gateway",
    "kill-helper": "Helper",
    "kill-jobhelper": "JobHelper",
    "kill-attempt": "Attempt",
}
#: What the target of a fault may be in place of one process: any of a role.
ROLES = ("Supervisor", *KILLS.values())
#: {kind of fault: what it does}
KINDS = {kind: f"kill -9 of a {role}" for kind, role in KILLS.items()} | {
    "stop": "SIGSTOP of a daemon, SIGCONT seconds later",
    "cut": "a link between racks carries nothing for seconds",
    "slow": "a link between racks is slower for seconds",
    "corrupt": "bytes of a block's replica are damaged",
    "fill": "the disks of a rack are full for seconds, as its DataNode sees it",
    "lose-node": "a node's attempts and its disk are gone",
}
GROUPS = {"kill": tuple(KILLS), "all": tuple(KINDS)}  #: {word for several kinds: these}
DESTROYING = ("corrupt", "lose-node")  #: replicas
#: Kinds by which a daemon dies: that of a node's rack serves the other nodes' disks, too.
DEADLY = (*KILLS, "lose-node")
#: {role: name of the one daemon that has it}
CENTRAL = {
    "ResourceManager": "resourcemanager",
    "NameNode": "namenode",
    "NetworkEmulator": "network",
    "Gateway": "gateway",
}
