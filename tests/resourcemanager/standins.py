"""The ResourceManager with stand-ins for all that it talks to.

All ends live in one process and share one reactor, so that nothing has to be waited for blindly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from railyard.cluster.config import ClusterConfig, Daemon
from railyard.cluster.errors import PeerError
from railyard.cluster.ids import AttemptId, JobId, NodeId
from railyard.cluster.messages import (
    BeginAttempt,
    CancelFlow,
    DiscardJob,
    FactsJournaled,
    FetchOutput,
    HeldAttempt,
    JobPackage,
    KillAttempt,
    LaunchAttempt,
    LoadJob,
    NodeManagerHolds,
    RegisterNodeManager,
)
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done, Message
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Links, Liveness, RackShape
from railyard.dfs.messages import (
    BlockId,
    BlockLocation,
    BlocksLocated,
    DrainingNodes,
    DrainNodes,
    FileBlocks,
    FileStatus,
    GetStatus,
    LocateBlocks,
    MoveFiles,
    Remove,
    Removed,
    Status,
)
from railyard.jobs.model import StageSpec
from railyard.netemu.emulator.process import NetworkEmulator
from railyard.netemu.messages import (
    CloseFlow,
    FinishCoflow,
    GetNetworkStats,
    LinksObserved,
    NetworkStats,
    OpenFlow,
    RegisterCoflow,
    ResumeCoflows,
    WatchLinks,
)
from railyard.netemu.model.network import LinkState
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.resourcemanager.process.main import ResourceManager
from railyard.resourcemanager.process.messages import (
    JobAccepted,
    JobEnded,
    JobProgress,
    SubmitJob,
)

MAPS_AND_REDUCE = (StageSpec(name="m"), StageSpec(name="r", reads=("m",), tasks=1))
PACKAGE = JobPackage(
    module="railyard.jobs.samples.wordcount",
    file_name="",
    source=b"",
    job_class="J",
    params={},
)
STATS = NetworkStats(
    active_s=1.0,
    cross_rack_room_bytes=100.0,
    bytes={"local": 0, "rack": 3, "cross_rack": 50, "eps": 50},
    cross_rack_links={"r0.up": 40, "r1.down": 10},
    grant_lags=((5, 100),),
    cpu_samples=10,
    cpu_saturated=2,
    flows_opened=1,
    flows_finished=1,
    flows_cancelled=0,
    flows_open=0,
)


class Office:
    """The ResourceManager and stand-ins for those it talks to.

    With ``flow_scheduler``, the network is no stand-in but the real emulator.
    """

    def __init__(
        self,
        folder: RunFolder,
        scheduler: str = "fair",
        flow_scheduler: FlowScheduler | None = None,
        options: dict[str, float] | None = None,
        **liveness: float,
    ) -> None:
        shape = RackShape(count=2, nodes=1, slots=2)
        topology = Topology(
            name="tiny",
            scale=10,
            racks=shape,
            links=Links(nic=1e9, uplink=1e9),
            liveness=Liveness(**{"heartbeat": 0.05, "expiry_s": 30.0, **liveness}),
        )
        config = ClusterConfig(
            topology=topology, scheduler=scheduler, scheduler_options=dict(options or {})
        )
        self.folder = folder
        self.reactor = Reactor()
        self.transport = Transport(folder, self.reactor)
        self.files: dict[str, BlocksLocated] = {}
        self.network_said: list[Message] = []
        self.links: dict[str, LinkState] = {}  #: what the network says of its links when asked
        self.namenode_said: list[Message] = []
        self.replicas: dict[str, int] = {}  #: of nodes that are drained, as the NameNode says
        self.refuses_drains = ""  #: why it does
        self._namenode()
        if flow_scheduler is None:
            self._network()
        else:
            NetworkEmulator(self.transport, topology, flow_scheduler)
        self._daemon = Daemon(
            role="ResourceManager",
            name="resourcemanager",
            folder=folder,
            config=config,
            ready=lambda: None,
        )
        self._managers = Transport(folder, self.reactor)
        self.manager = ResourceManager(self._daemon, self._managers)
        self.client = self.transport.link("resourcemanager")
        self.received: list[Message] = []  #: what the client received without asking
        for kind in (JobProgress, JobEnded):
            self.client.on(kind, lambda message, _: self.received.append(message))

    def close(self) -> None:
        self.manager.close()
        self._managers.close()
        self.transport.close()

    def restart(self) -> None:
        """Another ResourceManager in place of this one, of which nothing is sent any more."""
        self.manager._managers._by_rack.clear()  # its timers fire on in this process
        self.manager.close()
        self._managers.close()
        self._managers = Transport(self.folder, self.reactor)
        self.manager = ResourceManager(self._daemon, self._managers)
        self.client = self.transport.link("resourcemanager")
        for kind in (JobProgress, JobEnded):
            self.client.on(kind, lambda message, _: self.received.append(message))

    def break_connections(self) -> None:
        """Have NameNode and network hang up; others of their names take their places."""
        for server in (self._namenode_server, self._network_server):
            server.close()
        self._namenode()
        self._network()

    def silence_network(self) -> None:
        """Let the network hear everything, and answer nothing."""
        for kind in (OpenFlow, RegisterCoflow):
            self._network_server.on(kind, lambda r: self.network_said.append(r.message))

    def refuse_flows(self) -> None:
        """Let the network refuse to open flows."""

        def refuse(_: Any) -> Message:
            raise PeerError("no more flows")

        self._network_server.on(OpenFlow, refuse)

    def _namenode(self) -> None:
        self._namenode_server = server = self.transport.server("namenode")

        def locate(request: Any) -> Message:
            if request.message.path not in self.files:
                raise PeerError(f"{request.message.path}: nothing is there")
            return self.files[request.message.path]

        def status(request: Any) -> Message:
            path = request.message.path
            taken = FileStatus(path=path, folder=True) if path in self.files else None
            return Status(status=taken)

        def noted(answer: Message) -> Any:
            def handle(request: Any) -> Message:
                self.namenode_said.append(request.message)
                return answer

            return handle

        server.on(LocateBlocks, locate)
        server.on(GetStatus, status)
        server.on(DrainNodes, self._drain)
        server.on(MoveFiles, noted(Done()))
        server.on(Remove, noted(Removed(files=1, folders=1)))

    def _drain(self, request: Any) -> Message:
        if self.refuses_drains:
            raise PeerError(self.refuses_drains)
        self.namenode_said.append(request.message)
        nodes = request.message.nodes
        return DrainingNodes(replicas={node: self.replicas.get(node, 0) for node in nodes})

    def _network(self) -> None:
        self._network_server = server = self.transport.server("network")
        for kind in (OpenFlow, CloseFlow, RegisterCoflow, FinishCoflow, ResumeCoflows):
            server.on(kind, lambda request: self.network_said.append(request.message) or Done())
        server.on(GetNetworkStats, lambda request: STATS)
        server.on(WatchLinks, lambda request: LinksObserved(links=self.links))

    # What people do ------------------------------------------------------------------------------
    def store(self, path: str, blocks: list[tuple[int, str]]) -> None:
        """A file of blocks of these stored bytes, each on a node."""
        located = tuple(
            BlockLocation(
                block=BlockId(at), stored_offset=at * 100, stored_length=length, nodes=(node,)
            )
            for at, (length, node) in enumerate(blocks)
        )
        length = sum(length for length, _ in blocks)
        file = FileBlocks(path=path, stored_length=length, blocks=located)
        self.files[path] = BlocksLocated(folder=False, files=(file,))

    def submit(self, **changes: Any) -> str:
        wanted: dict[str, Any] = {
            "name": "words",
            "package": PACKAGE,
            "stages": MAPS_AND_REDUCE,
            "input_paths": ("/in",),
            "output_path": "/out",
            **changes,
        }
        return self.client.call(SubmitJob(**wanted), JobAccepted, timeout_s=5).job

    def wait(self, until: Any) -> None:
        assert self.reactor.run_until(until, timeout_s=5), "it did not come"


#: No process has this id: it is the first that Linux does not give.
NO_PROCESS = 2**22


class Rack:
    """A stand-in for a NodeManager with this number of nodes, of two slots each."""

    def __init__(
        self,
        office: Office,
        rack: str,
        nodes: int = 1,
        pid: int = NO_PROCESS,
        outputs: Sequence[str] = (),
        jobs: Sequence[str] = (),
    ) -> None:
        """``outputs`` and ``jobs``: what one before it has left on its first node."""
        self.office = office
        self.rack = rack
        self.node = f"{rack}n0"
        self.orders: list[Message] = []
        self._pid = pid
        self._slots = {f"{rack}n{number}": 2 for number in range(nodes)}
        self._outputs = {NodeId(self.node): tuple(map(AttemptId, outputs))}
        self._jobs = tuple(map(JobId, jobs))
        self._register(again=False)

    def _register(self, *, again: bool) -> None:
        self.link = self.office.transport.link("resourcemanager")
        attempts = (LaunchAttempt, BeginAttempt, KillAttempt)
        for kind in (LoadJob, *attempts, FetchOutput, CancelFlow, DiscardJob, FactsJournaled):
            self.link.on(kind, lambda order, _: self.orders.append(order))
        registration = RegisterNodeManager(
            rack=self.rack,
            pid=self._pid,
            nodes=self._slots,
            again=again,
            outputs={} if again else self._outputs,
            jobs=self._jobs,
        )
        self.link.call(registration, Done, timeout_s=5)

    def go_on(
        self,
        attempts: Sequence[HeldAttempt] = (),
        flows: Sequence[str] = (),
        jobs: Sequence[str] = (),
        facts: Sequence[Message] = (),
    ) -> None:
        """Register again, tell facts again, and say what is here."""
        self.orders.clear()
        self._register(again=True)
        for fact in facts:
            self.link.send(fact)
        self.link.send(
            NodeManagerHolds(
                rack=self.rack, attempts=tuple(attempts), flows=tuple(flows), jobs=tuple(jobs)
            )
        )

    def ordered(self, kind: type) -> list[Any]:
        return [order for order in self.orders if isinstance(order, kind)]

    def wait_for(self, kind: type, count: int = 1) -> list[Any]:
        self.office.wait(lambda: len(self.ordered(kind)) >= count)
        return self.ordered(kind)

    def say(self, fact: Message) -> None:
        self.link.send(fact)
