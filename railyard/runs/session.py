"""Sessions with a cluster: links to its daemons, and who died if one breaks.

While a command waits, its session reads the run folder ten times a second, so that it reports which
daemon died, not just a request without an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import ClusterFailed, PeerLost, UsageError
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.processes import allow_many_descriptors
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.supervisor import STARTED_AGAIN
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from railyard.runs import home as clusters
from railyard.runs.clusters import (
    CENTRAL,
    log_tail,
    own_cluster,
    require_descriptors,
    supervisor_events,
)
from railyard.terminal import interrupts

_WATCH_PERIOD_S = 0.1
#: How long after a lost connection the supervisor may take to say which daemon died.
_DEATH_NOTICE_S = 1.5


class Session:
    """Links to a cluster's daemons; notices when one of them dies."""

    def __init__(self, folder: RunFolder, config: ClusterConfig) -> None:
        require_descriptors(config.topology)
        allow_many_descriptors()
        self.folder = folder
        self.config = config
        self.transport = Transport(folder)
        self.reactor = self.transport.reactor
        #: called with {"role":, "name":, "pid":, "how":, "next":} when a daemon has died
        self.on_death: Callable[[dict[str, Any]], None] = lambda _: None
        self._links: dict[str, LastingLink] = {}
        self._deaths_before = self._deaths_seen = len(folder.deaths())
        self.reactor.call_every(_WATCH_PERIOD_S, self._watch)

    def link(self, name: str) -> LastingLink:
        """The link to a central daemon that single requests share."""
        if name not in self._links:
            self._links[name] = LastingLink(self.transport, name)
        return self._links[name]

    def status(self) -> ClusterStatus:
        """What the ResourceManager knows of its nodes and jobs."""
        return self.link("resourcemanager").ask(GetClusterStatus(), ClusterStatus)

    def deaths(self) -> list[dict[str, Any]]:
        """The daemons that died during this session: role, name, pid, how, next."""
        return self.folder.deaths()[self._deaths_before :]

    def close(self) -> None:
        """Close all links."""
        self.transport.close()

    def explain(self, lost: PeerLost) -> Exception:
        """Why a connection was lost: the death of a daemon, if there was one."""
        deadline_s = time.monotonic() + _DEATH_NOTICE_S
        while time.monotonic() < deadline_s:
            try:
                self._watch()
            except ClusterFailed as death:
                return death
            time.sleep(0.02)
        return lost

    def _watch(self) -> None:
        interrupts.check()
        deaths = self.folder.deaths()
        for death in deaths[self._deaths_seen :]:
            self._deaths_seen += 1
            if death["role"] in CENTRAL and death["next"] != STARTED_AGAIN:
                who = f"the {death['role']} (process {death['pid']}) died: {death['how']}"
                log = log_tail(self.folder, death["name"])
                raise ClusterFailed(f"{who}; the cluster can't go on without it{log}")
            self.on_death(death)
        if clusters.wait_until_dead(self.folder, 0):
            raise ClusterFailed(_how_it_stopped(self.folder))


def _how_it_stopped(folder: RunFolder) -> str:
    try:
        if not any(said["event"] == "stopped" for said in supervisor_events(folder)):
            return "the cluster's supervisor died, and all of the cluster with it"
    except FileNotFoundError:
        pass  # whoever stopped it has removed the folder
    return "the cluster was stopped"


@contextmanager
def connected(folder: RunFolder, config: ClusterConfig) -> Iterator[Session]:
    """A session for as long as the block runs; a lost connection is explained."""
    session = Session(folder, config)
    try:
        yield session
    except PeerLost as lost:
        raise session.explain(lost) from lost
    finally:
        session.close()


@contextmanager
def running_session() -> Iterator[Session]:
    """A session with the cluster that is up; raises ``UsageError`` if there is none."""
    folder = clusters.current_folder()
    if folder is None:
        raise UsageError("no cluster is up: railyard up starts one" + _what_became_of_it())
    with connected(folder, ClusterConfig.load(folder)) as session:
        yield session


@contextmanager
def own_session(config: ClusterConfig) -> Iterator[Session]:
    """A session with a cluster that is started for it alone."""
    with own_cluster(config) as cluster:
        cluster.wait_until_ready()
        with connected(cluster.folder, config) as session:
            yield session


def _what_became_of_it() -> str:
    folder = clusters.dead_current_folder()
    for death in folder.deaths() if folder else []:
        if death["role"] in CENTRAL and death["next"] != STARTED_AGAIN:
            return f" (the last one ended when its {death['role']} died: {death['how']})"
    return ""
