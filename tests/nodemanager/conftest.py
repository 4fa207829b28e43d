"""NodeManagers in processes of their own, under a ResourceManager that the test plays."""

import contextlib
import itertools
import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError
from railyard.cluster.ids import rack_of, task_index
from railyard.cluster.messages import (
    FACTS,
    AttemptDelayed,
    AttemptFailed,
    AttemptKilled,
    AttemptStarted,
    AttemptSucceeded,
    BeginAttempt,
    DiscardJob,
    FetchOutput,
    LaunchAttempt,
    LoadJob,
    NodeManagerHeartbeat,
    NodeManagerHolds,
    RegisterNodeManager,
    TaskSpec,
)
from railyard.cluster.messaging.access import Keys
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute, Links, Liveness, RackShape, Storage
from railyard.jobs.package import pack_file
from railyard.netemu.messages import AttachFlow, CloseFlow, Grants, OpenFlow

JOB_NUMBERS = itertools.count(1)
FLOW_NUMBERS = itertools.count()
ENDINGS = (AttemptSucceeded, AttemptFailed, AttemptKilled)

#: Counts words, in a map and a reduce.
COUNT = """
from railyard import Job, Lines

class Count(Job):
    input = Lines()
    def map(self, line: str):
        for word in line.split():
            yield word, 1
    def reduce(self, word, counts):
        yield word, sum(counts)
"""

PROGRAM = """
import sys
from railyard.cluster.config import ClusterConfig
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.supervisor import DaemonSpec, Supervisor
from railyard.dfs.datanode.process import main as datanode
from railyard.dfs.namenode.process import main as namenode
from railyard.netemu.emulator.process import main as network
from railyard.nodemanager.process import main as nodemanager

folder = RunFolder(sys.argv[1])
config = ClusterConfig.load(folder)
racks = [rack.id for rack in config.topology.rack_list()]
mains = {}
if sys.argv[2] == "whole":
    mains |= {"network": network, "namenode": namenode}
    mains |= {f"datanode-{rack}": datanode for rack in racks}
mains |= {f"nodemanager-{rack}": nodemanager for rack in racks}
specs = [DaemonSpec(role=name.split("-")[0], name=name, main=main, critical=False)
         for name, main in mains.items()]
sys.exit(Supervisor(folder, config, specs, lifeline=0).run())
"""


def topology(**tables):
    """Two racks of two nodes, links and code as fast as they are; ``tables`` replace these."""
    usual = {
        "name": "test",
        "racks": RackShape(count=2, nodes=2, slots=2),
        "links": Links(nic=float("inf"), uplink=float("inf")),
        "storage": Storage(block=2**20, replication=1),
        "compute": Compute(mode="real", memory=2**30),
        "liveness": Liveness(heartbeat=0.1, expiry_s=4.0, task_timeout=20.0),
    }
    return Topology(**(usual | tables))


class Manager:
    """Plays the ResourceManager, and an emulator that grants everything at once."""

    def __init__(self, folder, config, tmp_path):
        self.folder = folder
        self.config = config
        self.transport = Transport(folder)
        self.reactor = self.transport.reactor
        self.facts = []
        self.heartbeats = 0
        self._tmp_path = tmp_path
        self._peers = {}
        self._job_files = itertools.count()
        self.delayed = []
        self.held = []  #: what NodeManagers that registered again have
        self.serve()

    def serve(self):
        """Be the ResourceManager, from now on; another one, if there was one before."""
        self.server = self.transport.server("resourcemanager")
        self.server.on(RegisterNodeManager, self._register)
        self.server.on(NodeManagerHeartbeat, self._heartbeat)
        self.server.on(NodeManagerHolds, lambda request: self.held.append(request.message))
        self.server.on(AttemptDelayed, lambda request: self.delayed.append(request.message))
        for kind in FACTS:
            self.server.on(kind, lambda request: self.facts.append(request.message))

    def _register(self, request):
        self._peers[request.message.rack] = request.peer
        return Done()

    def _heartbeat(self, _request):
        self.heartbeats += 1

    # The emulator ------------------------------------------------------------------------------
    def play_network(self):
        """Be the emulator too: grant everything at once."""
        self.attached = {}  #: {flow: who wants its grants}
        self.closed = set()
        self._granting, self._refusing = True, False
        self.network = self.transport.server("network")
        self.network.on(AttachFlow, self._attach)
        self.network.on(OpenFlow, self._attach)
        self.network.on(CloseFlow, lambda request: self.closed.add(request.message.flow))

    def _attach(self, request):
        if self._refusing:
            raise PeerError("no such flow")
        self.attached[request.message.flow] = request.peer
        self.network.reply(request, Done())
        if self._granting:
            self.grant(request.message.flow)

    def grant(self, flow, some_bytes=None):
        """Grant all of a flow, or only some bytes."""
        grants = (
            Grants(total_bytes={}, finished=(flow,))
            if some_bytes is None
            else Grants(total_bytes={flow: some_bytes})
        )
        self.network.push(self.attached[flow], grants)

    @contextlib.contextmanager
    def no_grants(self):
        self._granting = False
        yield
        self._granting = True

    @contextlib.contextmanager
    def no_flows(self):
        self._refusing = True
        yield
        self._refusing = False

    def start(self, whole):
        if not whole:
            self.play_network()
        self.config.save(self.folder)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(self.folder.path), "whole" if whole else "part"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        racks = self.config.topology.racks.count
        self.until(lambda: len(self._peers) == racks)
        assert json.loads(self.process.stdout.readline()) == {"event": "ready"}

    def stop(self):
        """Take the cluster down; what was left of it by then is what should not have been."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=20)
        self.transport.close()
        _, alive = psutil.wait_procs(family, timeout=5)
        for process in alive:
            process.kill()
        self.folder.remove()
        assert not alive

    # Orders ------------------------------------------------------------------------------------
    def send(self, rack, order):
        assert self.server.push(self._peers[rack], order)

    def load(self, job, source, rack=None, **params):
        """Write ``source`` to a file and load it, everywhere unless a rack is given."""
        file = self._tmp_path / f"job_{next(self._job_files)}.py"
        file.write_text(source)
        self.load_package(job, pack_file(file, params=params), rack)

    def load_package(self, job, package, rack=None):
        for known in [rack] if rack else self._peers:
            self.send(known, LoadJob(job=job, package=package))

    def launch_order(self, attempt, node="r0n0", *, begins=True, **task):
        spec = TaskSpec(stage=attempt.split(".")[1][0], index=task_index(attempt), **task)
        return LaunchAttempt(attempt=attempt, node=node, task=spec, begins=begins)

    def launch(self, attempt, node="r0n0", **task):
        self.send(rack_of(node), self.launch_order(attempt, node, **task))

    def begin(self, attempt, node="r0n0"):
        """Give an attempt that was launched without a slot one."""
        self.send(rack_of(node), BeginAttempt(attempt=attempt, node=node))

    def fetch(self, reader, dst, src, *outputs, partition=1, flow=None):
        """Have the reader, on ``dst``, fetch a partition of these outputs; the flow's name."""
        flow = flow or f"f{next(FLOW_NUMBERS)}"
        order = FetchOutput(
            flow=flow,
            reader=reader,
            src=src,
            rack=rack_of(src),
            outputs=outputs,
            partition=partition,
        )
        self.send(rack_of(dst), order)
        return flow

    # Facts -------------------------------------------------------------------------------------
    def until(self, done, timeout_s=10.0):
        assert self.reactor.run_until(done, timeout_s), f"facts so far: {self.facts}"

    def fact(self, kind, **fields):
        """Wait for a fact of that kind with those fields."""

        def matching():
            for fact in self.facts:
                if isinstance(fact, kind) and all(
                    getattr(fact, name) == value for name, value in fields.items()
                ):
                    return fact
            return None

        self.until(matching)
        return matching()

    def ending(self, attempt):
        """Wait for the fact that ends an attempt."""
        return self.fact(ENDINGS, attempt=attempt)

    def pid(self, attempt):
        return self.fact(AttemptStarted, attempt=attempt).pid

    def reactor_now(self):
        return now_s()

    def idle(self, period_s):
        """Serve for a while."""
        self.reactor.run_until(lambda: False, period_s)

    def nodemanager(self, rack):
        """The NodeManager's process."""
        name = f"nodemanager-{rack}"
        pid = next(row["pid"] for row in self.folder.processes() if row["name"] == name)
        return psutil.Process(pid)

    def helper(self, rack):
        """The rack's clean helper."""
        (helper,) = self.nodemanager(rack).children()
        return helper


@pytest.fixture(scope="module")
def start_cluster(tmp_path_factory):
    """Starts clusters of a topology; stops them after the module's tests.

    A whole one has a block store and an emulator of its own.
    """
    started = []

    def start(whole=False, tcp=False, **tables):
        folder = RunFolder.create(tmp_path_factory.mktemp("n"))
        if tcp:
            Keys.create(folder.keys)
        config = ClusterConfig(topology=topology(**tables), for_tests=True)
        manager = Manager(folder, config, tmp_path_factory.mktemp("jobs"))
        started.append(manager)
        manager.start(whole)
        return manager

    yield start
    for manager in started:
        manager.stop()


@pytest.fixture(scope="module")
def cluster(start_cluster):
    """One cluster for all tests of a module that leave it whole."""
    return start_cluster()


def new_job():
    """The id of a job that no other test uses."""
    return f"j{next(JOB_NUMBERS)}"


@pytest.fixture
def job(cluster):
    """The id of a job that no other test uses; discarded at the end."""
    name = new_job()
    yield name
    for rack in ("r0", "r1"):
        cluster.send(rack, DiscardJob(job=name))
