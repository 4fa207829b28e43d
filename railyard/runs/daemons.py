"""The parent of a cluster's daemons: imports what they need, then forks and watches them.

Run by ``launch`` as ``python -m railyard.runs.daemons RUNFOLDER [LIFELINE_FD]``.
Never here: a ZeroMQ context, and imports that only a command line or a benchmark needs.
"""

from __future__ import annotations

import sys

import railyard.dfs.datanode.process
import railyard.dfs.namenode.process
import railyard.netemu.emulator.process
import railyard.nodemanager.process
import railyard.resourcemanager.process.main
from railyard.cluster.config import ClusterConfig, Daemon
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.supervisor import DaemonSpec, Supervisor
from railyard.resourcemanager.process.recovery import is_worth_a_standby

#: Of the daemons without which a cluster can't go on, those that may have so much to replay that a
#: standby follows them, and when.
STANDBYS = {"ResourceManager": lambda folder: is_worth_a_standby(folder.events)}


def daemons(config: ClusterConfig) -> list[DaemonSpec]:
    """The daemons of a cluster, in the order in which they are started."""
    central = (
        ("NetworkEmulator", "network", railyard.netemu.emulator.process.main),
        ("NameNode", "namenode", railyard.dfs.namenode.process.main),
        ("ResourceManager", "resourcemanager", railyard.resourcemanager.process.main.main),
    )
    of_a_rack = (
        ("DataNode", railyard.dfs.datanode.process.main),
        ("NodeManager", railyard.nodemanager.process.main),
    )
    specs = [
        DaemonSpec(role=role, name=name, main=main, critical=True, wants_standby=STANDBYS.get(role))
        for role, name, main in central
    ]
    specs += [
        DaemonSpec(role=role, name=f"{role.lower()}-{rack.id}", main=main, critical=False)
        for rack in config.topology.rack_list()
        for role, main in of_a_rack
    ]
    if config.http is not None:
        module = "railyard.gateway.process"
        specs.append(
            DaemonSpec(role="Gateway", name="gateway", main=_gateway, critical=False, module=module)
        )
    return specs


def _gateway(daemon: Daemon) -> None:
    from railyard.gateway.process import main as serve  # clusters without one have no HTTP library

    serve(daemon)


def main() -> None:
    """Run a cluster; the first argument is its run folder."""
    folder = RunFolder(sys.argv[1])
    lifeline = int(sys.argv[2]) if len(sys.argv) > 2 else None
    config = ClusterConfig.load(folder)
    sys.exit(Supervisor(folder, config, daemons(config), lifeline).run())


if __name__ == "__main__":
    main()
