"""Does the faults of a plan to a cluster, and reports what each hit and how long recovery took."""

from __future__ import annotations

import math
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from railyard.chaos import targets
from railyard.chaos.plan import LiveFault, nodes_to_lose, replica_to_damage
from railyard.chaos.targets import Journal, Processes, Recovery
from railyard.cluster.errors import InvariantError
from railyard.cluster.faults import KILLS, ROLES
from railyard.cluster.ids import NodeId, job_of
from railyard.cluster.messaging.transport import Describe, Description
from railyard.cluster.messaging.wire import Done, Message
from railyard.cluster.processes import signal_member
from railyard.cluster.units import format_count, format_duration
from railyard.dfs.messages import BlockId, MakeFolder, ReplicaFailed
from railyard.netemu.messages import GetNetworkStats, NetworkStats, SetCapacity
from railyard.netemu.model.network import Network
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from railyard.runs.clusters import Session
from railyard.runs.home import DAEMONS

#: Of a link without limit, when it is to have one.
_UNLIMITED_BYTES_PER_S = 1.25e9
#: Any folder that there is, or may be.
_FOLDER = "/runs"
_DAMAGES = (targets.flip, targets.overwrite, targets.delete)
#: {role: what one at work can do: a request, and its answer}
_AT_WORK: dict[str, tuple[Message, type[Message]]] = {
    "NameNode": (MakeFolder(path=_FOLDER), Done),  # refused until it knows its blocks
    "ResourceManager": (GetClusterStatus(), ClusterStatus),
    "NetworkEmulator": (GetNetworkStats(), NetworkStats),
}


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a fault did.

    After the fault's ``lasts_s`` it is mended, and what ``watch`` returns shows the recovery.
    """

    what: str  #: "kill -9 of datanode-r1"
    watch: Callable[[], Recovery]
    mend: Callable[[], object] = lambda: None


class Faults:
    """Does faults to the cluster of a session; kinds that no plan draws can be added."""

    def __init__(self, session: Session) -> None:
        self._folder = session.folder
        self._processes = Processes(session.folder)
        cluster = session.folder.id
        assert cluster is not None, "its session is there"
        self._cluster = cluster
        self._transport = session.transport
        self._topology = session.config.topology
        self._links = Network(self._topology)
        self._journal = Journal(session.folder)
        self._manager = session.link("resourcemanager")
        self._namenode = session.link("namenode")
        self._network = session.link("network")
        self.kinds: dict[str, Callable[[LiveFault], Effect | None]] = {
            **dict.fromkeys(KILLS, self._kill),
            "stop": self._stop,
            **dict.fromkeys(("cut", "slow"), self._limit_link),
            "fill": self._fill,
            "corrupt": self._corrupt,
            "lose-node": self._lose_node,
        }
        self._under_replicated: set[str] = set()  #: files of blocks

    def begin(self, fault: LiveFault) -> Effect | None:
        """Do a fault; None if there is nothing now that it could be done to."""
        return self.kinds[fault.kind](fault)

    # Processes -------------------------------------------------------------------------------
    def _kill(self, fault: LiveFault) -> Effect | None:
        role = KILLS[fault.kind]
        name = fault.target and f"{fault.target}-helper" if role == "Helper" else fault.target
        row = self._one(role, name, fault.draw)
        if row is None or not self._signal(row, signal.SIGKILL):
            return None
        another = partial(targets.another, self._processes, role)
        watch: Callable[[], Recovery]
        if role == "Attempt":
            watch = partial(another, partial(_is_of_same_task, row), partial(self._is_over, row))
        elif role == "JobHelper":
            is_needless = partial(self._needs_no_helper, row, self._manager_of(row))
            watch = partial(another, partial(_replaces, row), is_needless)
        elif role == "Helper":
            watch = partial(another, partial(_replaces, row))
        else:
            watch = partial(self._back_at_work, role, row["name"], row["pid"])
        what = f"attempt {row['name']}" if role == "Attempt" else row["name"]
        return Effect(what=f"kill -9 of {what}", watch=watch)

    def _signal(self, row: dict[str, Any], number: signal.Signals) -> bool:
        return signal_member(self._cluster, row["pid"], number)

    def one(self, fault: LiveFault) -> dict[str, Any] | None:
        """A living process that a fault happens to; its target is a name or a role."""
        role, name = (fault.target, "") if fault.target in ROLES else ("", fault.target)
        return self._one(role, name, fault.draw)

    def _one(self, role: str, name: str, draw: float) -> dict[str, Any] | None:
        rows = self._processes.living(role, name)
        rows = [row for row in rows if not self._is_over(row)]
        return rows[int(draw * len(rows))] if rows else None

    def _is_over(self, row: dict[str, Any]) -> bool:
        """Whether what a process was there for has ended: nothing follows from its death."""
        if row["role"] == "JobHelper":
            return self._journal.has_ended(row["name"].rpartition("-")[2])
        if row["role"] == "Attempt":
            return self._journal.has_ended(job_of(row["name"]), row["name"].rpartition(".")[0])
        return False

    def _manager_of(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        return self._processes.living("NodeManager", row["name"].rpartition("-")[0])

    def _needs_no_helper(self, row: dict[str, Any], manager: list[dict[str, Any]]) -> bool:
        """Whether nobody starts a job's helper again, as its job or its NodeManager has ended.

        Another NodeManager starts one when it is given an attempt of that job.
        """
        return self._is_over(row) or self._manager_of(row) != manager

    def _back_at_work(self, role: str, name: str, dead_pid: int) -> Recovery:
        """Another process of the daemon answers, and does what only one at work can do."""

        def has_joined(status: ClusterStatus) -> bool:
            rack = name.removeprefix("nodemanager-")
            return all(node.alive for node in status.nodes if node.rack == rack)

        yield from self.answers(name, lambda found: found.pid != dead_pid)
        ask = partial(targets.answers, self._transport)
        if role in _AT_WORK:
            yield from ask(name, *_AT_WORK[role])
        elif role == "NodeManager":
            yield from ask("resourcemanager", GetClusterStatus(), ClusterStatus, has_joined)

    def answers(
        self, name: str, is_right: Callable[[Description], bool] = lambda _: True
    ) -> Recovery:
        return targets.answers(self._transport, name, Describe(), Description, is_right)

    def _stop(self, fault: LiveFault) -> Effect | None:
        row = self.one(fault)
        if row is None or not self._signal(row, signal.SIGSTOP):
            return None
        name, lasts = row["name"], format_duration(fault.lasts_s)
        return Effect(
            what=f"SIGSTOP of {name} for {lasts}",
            watch=partial(self.answers, name) if row["role"] in DAEMONS else targets.at_once,
            mend=partial(self._signal, row, signal.SIGCONT),
        )

    # Links -----------------------------------------------------------------------------------
    def _limit_link(self, fault: LiveFault) -> Effect:
        link = fault.target
        stated = float(self._links.capacities[self._links.number[link]])
        limit = stated if math.isfinite(stated) else _UNLIMITED_BYTES_PER_S
        order = SetCapacity(link=link, bytes_per_s=limit * fault.amount)
        self._network.insist(order, Done, lambda *_: None)
        carries = f"{fault.amount:.0%} of its rate" if fault.amount else "nothing"
        back = SetCapacity(link=link, bytes_per_s=stated)
        return Effect(
            what=f"{link} carries {carries} for {format_duration(fault.lasts_s)}",
            watch=partial(targets.answers, self._transport, "network", back, Done),
        )

    # Disks -----------------------------------------------------------------------------------
    def _fill(self, fault: LiveFault) -> Effect | None:
        row, limit_files = self.one(fault), partial(targets.limit, resource.RLIMIT_FSIZE)
        if row is None or not limit_files(row["pid"], 0):
            return None
        return Effect(
            what=f"the disks of {fault.target} full for {format_duration(fault.lasts_s)}",
            watch=partial(self.answers, fault.target),
            mend=partial(limit_files, row["pid"], None),
        )

    def _corrupt(self, fault: LiveFault) -> Effect | None:
        found = targets.replicas(self._folder.path)
        chosen = replica_to_damage(_by_node(found), self._under_replicated, fault.draw)
        if chosen is None:
            return None
        name, node = chosen
        [path] = [each for each in found[name] if _node_of(each) == node]
        dice = random.Random(fault.draw)
        try:
            content = path.read_bytes()
            dice.choice(_DAMAGES)(dice, [path])
        except FileNotFoundError:
            return None  # it was removed meanwhile, by whoever made it
        found_so = ReplicaFailed(block=BlockId(int(name[1:])), node=node, reason="read by chaos")
        return Effect(
            what=f"block {name} damaged on {node}",
            watch=partial(
                targets.replicated,
                self._folder,
                {name: (len(found[name]), content)},
                self._under_replicated,
                partial(self._namenode.send, found_so),
            ),
        )

    def _lose_node(self, fault: LiveFault) -> Effect | None:
        """A node of this DataNode's rack: its disk is empty when the DataNode comes back."""
        found = targets.replicas(self._folder.path)
        rack = fault.target.removeprefix("datanode-")
        nodes = [node.id for node in self._topology.nodes() if node.rack == rack]
        may_be = nodes_to_lose(_by_node(found), self._under_replicated, nodes)
        row = self._one("DataNode", fault.target, fault.draw)
        if not may_be or row is None:
            return None
        node = may_be[int(fault.draw * len(may_be))]
        disk = self._folder.node(node)
        lost = [name for name, paths in found.items() if disk / "blocks" / name in paths]
        (disk / "blocks").rename(disk / "lost")
        self._signal(row, signal.SIGKILL)
        shutil.rmtree(disk / "lost")
        for path in targets.map_outputs(self._folder.path):
            if path.is_relative_to(disk):
                path.unlink(missing_ok=True)
        self._manager.insist(GetClusterStatus(), ClusterStatus, partial(self._kill_those_on, node))
        wanted = {name: (len(found[name]), None) for name in lost}
        return Effect(
            what=f"{node} lost with {format_count(len(lost), 'replica')}",
            watch=partial(targets.replicated, self._folder, wanted, self._under_replicated),
        )

    def _kill_those_on(self, node: NodeId, status: object, _: memoryview | None) -> None:
        if not isinstance(status, ClusterStatus):
            raise InvariantError(f"GetClusterStatus was answered with {status}")
        [attempts] = [each.attempts for each in status.nodes if each.node == node]
        for row in self._processes.living("Attempt"):
            if row["name"] in attempts:
                self._signal(row, signal.SIGKILL)


def _replaces(dead: dict[str, Any], row: dict[str, Any]) -> bool:
    return bool(row["name"] == dead["name"] and row["pid"] != dead["pid"])


def _is_of_same_task(dead: dict[str, Any], row: dict[str, Any]) -> bool:
    name, task = str(row["name"]), dead["name"].rpartition(".")[0]
    return name != dead["name"] and name.startswith(f"{task}.")


def _by_node(found: dict[str, list[Path]]) -> dict[str, list[NodeId]]:
    return {name: [_node_of(path) for path in paths] for name, paths in found.items()}


def _node_of(path: Path) -> NodeId:
    """Of the file of a block."""
    return NodeId(path.parent.parent.name)


#: For how long a fault waits for something that it can be done to.
_TARGET_PATIENCE_S = 20.0
#: A cluster that takes longer has not recovered.
RECOVERY_TIMEOUT_S = 60.0
#: Between two steps of all that is under way.
_PERIOD_S = 0.02


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """What came of a fault."""

    fault: LiveFault
    what: str  #: "kill -9 of datanode-r1"; "" = there was nothing that it could be done to
    at_s: float  #: when it was done, or given up, on the plan's clock
    took_s: float | None  #: from the fault, or from its end, to recovery; None = none was seen


class Injector:
    """Carries out a plan on a session's cluster; ``report`` is called as each fault is over."""

    def __init__(
        self,
        session: Session,
        plan: Iterable[LiveFault],
        report: Callable[[Recovered], None] = lambda _: None,
    ) -> None:
        self.done: list[Recovered] = []
        self.begun_s = time.monotonic()  #: when the plan's clock was 0
        self._reactor = session.reactor
        self.faults = Faults(session)
        self._report = report
        self._courses = [self._course(fault) for fault in plan]

    def follow(self, is_over: Callable[[], bool]) -> None:
        """Go on until all faults are over, and ``is_over``; or until that raises an error."""
        try:
            while not is_over() or self._courses:
                self._reactor.run_until(lambda: False, _PERIOD_S)
                self._courses = [course for course in self._courses if next(course, True) is None]
        finally:
            for course in self._courses:  # nothing stays stopped or limited, however this ended
                course.close()

    @property
    def now_s(self) -> float:
        return time.monotonic() - self.begun_s

    def _course(self, fault: LiveFault) -> Generator[None, None, None]:
        """Wait for its time, do it, wait until it is over, mend and watch; a step a period."""
        while self.now_s < fault.at_s:
            yield
        at_s = self.now_s
        while (effect := self.faults.begin(fault)) is None:
            if at_s >= fault.at_s + _TARGET_PATIENCE_S:
                self._end(Recovered(fault=fault, what="", at_s=at_s, took_s=None))
                return
            yield
            at_s = self.now_s
        mended_s = at_s
        try:
            while mended_s < at_s + fault.lasts_s:
                yield
                mended_s = self.now_s
        finally:
            effect.mend()
        watch = effect.watch()
        while (ended := next(watch, True)) is None and self.now_s < mended_s + RECOVERY_TIMEOUT_S:
            yield
        took_s = self.now_s - mended_s if ended else None
        watch.close()
        self._end(Recovered(fault=fault, what=effect.what, at_s=at_s, took_s=took_s))

    def _end(self, recovered: Recovered) -> None:
        self.done.append(recovered)
        self._report(recovered)
