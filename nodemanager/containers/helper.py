"""The clean helper: a small process without a ZeroMQ context, of which jobs' helpers are forked.

A process that has a ZeroMQ context, with its threads and locks, cannot be forked safely.  So the
NodeManager forks this helper before it makes its own, and asks it for a helper for each job:

    NodeManager -> clean helper -> job helper (has imported the job's module) -> attempts

Each dies with its parent.  The helpers have one thread and know neither jobs nor messages of the
network; whatever attempts will need is imported here, once, and shared by all of them.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket

from railyard.cluster.config import Daemon
from railyard.cluster.ids import JobId
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.wire import Vocabulary
from railyard.cluster.processes.family import (
    adopt_orphans,
    close_descriptors_but,
    fork,
    how_it_ended,
    kill_strays,
)
from railyard.jobs.samples.catalog import import_all
from railyard.nodemanager.containers.channel import Channel
from railyard.nodemanager.containers.jobhelper import serve_job
from railyard.nodemanager.messages import (
    ForkJobHelper,
    JobHelperEnded,
    JobHelperForked,
    KillJobHelper,
)

import_all()  # Railyard's own jobs: 5 to 13 ms in each job's helper otherwise

log = logging.getLogger(__name__)


def start_helper(daemon: Daemon) -> tuple[int, Channel]:
    """Fork the clean helper: its process id, and the channel to it.

    To be called before this process makes a ZeroMQ context or starts a thread.
    """
    ours, theirs = socket.socketpair()

    def help_out() -> None:
        ours.close()
        close_descriptors_but({theirs.fileno()})
        # Ctrl-C goes to the whole terminal; whoever is asked to stop takes us along.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _Helper(daemon, theirs).serve()

    pid = fork(help_out)
    theirs.close()
    daemon.folder.record_process("Helper", f"{daemon.name}-helper", pid)
    return pid, Channel(ours, Vocabulary([JobHelperForked, JobHelperEnded]))


class _Helper:
    def __init__(self, daemon: Daemon, end: socket.socket) -> None:
        self._daemon = daemon
        self._channel = Channel(end, Vocabulary([ForkJobHelper, KillJobHelper]))
        self._reactor = Reactor()
        self._pids: dict[int, int] = {}  #: {number of a job helper: its process id}

    def serve(self) -> None:
        """Fork and reap until the NodeManager is gone."""
        gc.collect()
        adopt_orphans()  # what is left of a job when its helper is killed
        gc.freeze()  # collections in the children then leave the shared pages alone
        self._reactor.add(self._channel.fileno(), self._on_orders)
        self._reactor.run()
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _on_orders(self) -> None:
        for order in self._channel.receive():
            if isinstance(order, ForkJobHelper):
                self._fork(order.helper, order.job)
            elif isinstance(order, KillJobHelper) and order.helper in self._pids:
                os.kill(self._pids[order.helper], signal.SIGKILL)
        if self._channel.at_end:
            self._reactor.stop()

    def _fork(self, helper: int, job: JobId) -> None:
        def help_job() -> None:
            self._channel.close()
            close_descriptors_but({end.fileno()})
            # Here, for it is in the list before any attempt that it forks.
            self._daemon.folder.record_process(
                "JobHelper", f"{self._daemon.name}-{job}", os.getpid()
            )
            serve_job(self._daemon, job, end)

        with socket.socket(fileno=self._channel.take_fd()) as end:
            try:
                pid = fork(help_job)
            except OSError as error:
                how = f"no process for it: {error.strerror}"
                self._channel.send(JobHelperEnded(helper=helper, how=how))
                return
        self._pids[helper] = pid
        self._channel.send(JobHelperForked(helper=helper, pid=pid))
        ended = os.pidfd_open(pid)
        self._reactor.add(ended, lambda: self._reap(helper, pid, ended))

    def _reap(self, helper: int, pid: int, ended: int) -> None:
        self._reactor.remove(ended)
        os.close(ended)
        del self._pids[helper]
        _, status = os.waitpid(pid, 0)
        kill_strays(self._pids.values())
        self._channel.send(JobHelperEnded(helper=helper, how=how_it_ended(status)))
