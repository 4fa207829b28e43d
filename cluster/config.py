"""The configuration of a cluster: its topology, schedulers, seed and durability."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from railyard.cluster.files import Durability
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import Topology

TransportKind = Literal["ipc", "tcp"]
#: Whether daemons that died are restarted.
Restart = Literal["never", "on-failure"]
#: A daemon that has died so often within this time is given up.
DEATHS_MAX = 8
WITHIN_S = 60.0
#: The exit status of a daemon that would fail in the same way if it were restarted.
NOT_AGAIN = 78


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster's configuration, read by every daemon; ``cluster.json`` in the run folder."""

    topology: Topology
    scheduler: str = "fair"
    flow_scheduler: str = "maxmin"
    seed: int = 1
    transport: TransportKind = "ipc"
    durability: Durability = "safe"
    restart: Restart = "on-failure"
    http: int | None = None  #: the gateway's port; 0 = any that is free; None = no gateway
    http_host: str = "127.0.0.1"  #: the gateway's address; any but a loopback's needs a token
    http_origins: tuple[str, ...] = ()  #: of other sites whose pages may read its answers
    for_tests: bool = False  #: accept daemons' messages from clients
    #: the scheduler's own settings, such as {"delay.node_wait_s": 3.0}
    scheduler_options: dict[str, str | int | float | bool] = {}

    def save(self, folder: RunFolder) -> None:
        text = json.dumps(msgspec.to_builtins(self), indent=2)
        (folder.path / "cluster.json").write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: RunFolder) -> ClusterConfig:
        path = folder.path / "cluster.json"
        # Python's own parser, since it accepts the Infinity of an unlimited rate.
        return msgspec.convert(json.loads(path.read_text(encoding="utf-8")), cls)


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """A daemon's name, run folder and configuration: the argument of every daemon's ``main``."""

    role: str  #: "ResourceManager", "NodeManager", "Gateway" and so on
    name: str  #: "resourcemanager", "nodemanager-r0", "gateway" and so on
    folder: RunFolder
    config: ClusterConfig
    ready: Callable[[], None]  #: to be called once, when the daemon has registered and can serve
    #: of a standby: calls its argument now and then, and returns when it takes the daemon's place
    wait_until_needed: Callable[[Callable[[], object]], None] | None = None
