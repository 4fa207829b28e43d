"""Attempts without a slot: they get what their task reads, wait, and compute once they may."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from railyard.cluster.errors import Refused
from railyard.cluster.messages import (
    AskToCompute,
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptReady,
    AttemptStarted,
    AttemptSucceeded,
    CancelFlow,
    DiscardJob,
    FlowFailed,
    FlowFinished,
    KillAttempt,
    Split,
)
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topologyfile import Compute, Links, Liveness, RackShape, Storage
from railyard.dfs.client import DfsClient
from railyard.jobs.package import pack_file
from railyard.nodemanager.permits import permits_of_machine
from railyard.nodemanager.shuffle import output_path, write_output
from tests.nodemanager.conftest import COUNT, new_job
from tests.waiting import gone

READER = """
{top}
from railyard import Job
from railyard.jobs.model import Stage
from railyard.jobs.taskio import TaskResult

class Op:
    def run(self, task, io, counters):
        print("begun", flush=True)
        list(io.fetched())
        {work}
        return TaskResult(partitions=[[]] * task.partitions, counters=counters)

class Reader(Job):
    def stages(self):
        return (Stage("r", Op()),)
"""
SIZE = 400_000


class Reading:
    """A reduce on r0n0 that was launched without a slot, and two map outputs for it."""

    def __init__(self, cluster, job, top="", work="pass"):
        self.cluster = cluster
        self.attempt = f"{job}.r1.0"
        self.outputs = {f"{job}.m0.0": "r0n1", f"{job}.m1.0": "r1n0"}
        for output, node in self.outputs.items():
            path = output_path(cluster.folder, node, output)
            write_output(path, [[], [os.urandom(SIZE)]])
        if not top:
            cluster.load(job, READER.format(top=top, work=work))
        cluster.launch(self.attempt, reads=("m",), inputs=2, begins=False)

    def fetch(self, number):
        """Have it fetch one of the outputs; the flow's name."""
        output, src = list(self.outputs.items())[number]
        return self.cluster.fetch(self.attempt, "r0n0", src, output)

    def become_ready(self):
        for number in range(2):
            self.fetch(number)
        self.cluster.fact(AttemptReady, attempt=self.attempt)

    def facts(self, *kinds):
        return [
            fact
            for fact in self.cluster.facts
            if isinstance(fact, kinds) and fact.attempt == self.attempt
        ]

    def code_has_begun(self):
        written = self.cluster.folder.attempt(self.attempt) / "stdout"
        return written.exists() and "begun" in written.read_text()


def test_it_fetches_says_that_it_has_all_and_runs_no_code_before_it_may(cluster, job):
    reading = Reading(cluster, job)
    pid = cluster.pid(reading.attempt)
    cluster.fact(FlowFinished, flow=reading.fetch(0))
    assert not reading.facts(AttemptReady)
    cluster.fact(FlowFinished, flow=reading.fetch(1))
    cluster.fact(AttemptReady, attempt=reading.attempt)
    cluster.idle(0.7)
    assert not reading.code_has_begun()
    assert not reading.facts(AttemptProgressed)
    cluster.begin(reading.attempt)
    ending = cluster.ending(reading.attempt)
    assert isinstance(ending, AttemptSucceeded)
    assert ending.input_bytes == 2 * SIZE
    [started] = reading.facts(AttemptStarted)
    assert started.pid == pid, "it is one process"
    [delayed] = [known for known in cluster.delayed if known.attempt == reading.attempt]
    assert delayed.launch_s > 0, "whoever waits until it is ready waits for its start"


@pytest.mark.parametrize("fetched", [0, 1])
def test_begun_before_it_has_all_it_goes_on_as_any_other(cluster, job, fetched):
    reading = Reading(cluster, job)
    for number in range(fetched):
        cluster.fact(FlowFinished, flow=reading.fetch(number))
    cluster.begin(reading.attempt)
    cluster.begin(reading.attempt)  # once more changes nothing
    cluster.until(reading.code_has_begun)
    cluster.fact(AttemptProgressed, attempt=reading.attempt)
    for number in range(fetched, 2):
        reading.fetch(number)
    assert cluster.ending(reading.attempt).input_bytes == 2 * SIZE
    assert not reading.facts(AttemptReady)


def test_begun_before_its_process_runs(cluster, job):
    top = f"import os, time\nif os.getpid() != {os.getpid()}: time.sleep(0.5)"
    file = cluster.folder.path / "slow.py"
    file.write_text(READER.format(top=top, work="pass"))
    cluster.load_package(job, pack_file(file), rack="r0")
    reading = Reading(cluster, job, top=top)
    cluster.begin(reading.attempt)
    for number in range(2):
        reading.fetch(number)
    assert isinstance(cluster.ending(reading.attempt), AttemptSucceeded)
    [delayed] = [known for known in cluster.delayed if known.attempt == reading.attempt]
    assert delayed.launch_s > 0.3, "it waited for its process"


def test_a_source_that_is_lost_is_fetched_again(cluster, job):
    reading = Reading(cluster, job)
    cluster.fact(FlowFinished, flow=reading.fetch(0))
    with cluster.no_grants():
        under_way = reading.fetch(1)
        cluster.until(lambda: under_way in cluster.attached)
    cluster.send("r0", CancelFlow(flow=under_way, dst="r0n0"))
    damaged = output_path(cluster.folder, "r1n0", f"{job}.m1.0")
    kept = damaged.read_bytes()
    damaged.unlink()
    assert cluster.fact(FlowFailed, flow=reading.fetch(1)).lost == (f"{job}.m1.0",)
    damaged.write_bytes(kept)  # its map ran again
    reading.fetch(1)
    cluster.fact(AttemptReady, attempt=reading.attempt)
    cluster.begin(reading.attempt)
    assert isinstance(cluster.ending(reading.attempt), AttemptSucceeded)


@pytest.mark.parametrize("moment", ["at once", "started", "fetching", "ready", "begun"])
@pytest.mark.parametrize("how", ["order", "signal", "job ends"])
def test_killed_at_any_moment_it_ends(cluster, job, moment, how):
    reading = Reading(cluster, job, work="import time; time.sleep(60)")
    if moment != "at once" or how == "signal":
        pid = cluster.pid(reading.attempt)
    if moment == "fetching":
        with cluster.no_grants():
            flow = reading.fetch(1)
            cluster.until(lambda: flow in cluster.attached)
    elif moment in ("ready", "begun"):
        reading.become_ready()
    if moment == "begun":
        cluster.begin(reading.attempt)
        cluster.until(reading.code_has_begun)
    if how == "order":
        cluster.send("r0", KillAttempt(attempt=reading.attempt, node="r0n0", reason="withdrawn"))
    elif how == "job ends":
        cluster.send("r0", DiscardJob(job=job))
    else:
        os.kill(pid, signal.SIGKILL)
    expected = AttemptFailed if how == "signal" else AttemptKilled
    assert isinstance(cluster.ending(reading.attempt), expected)
    if moment != "at once":
        cluster.until(lambda: gone(pid))


def test_begun_after_it_has_ended_nothing_follows(cluster, job):
    reading = Reading(cluster, job)
    reading.become_ready()
    cluster.send("r0", KillAttempt(attempt=reading.attempt, node="r0n0", reason="withdrawn"))
    cluster.begin(reading.attempt)
    assert isinstance(cluster.ending(reading.attempt), AttemptKilled)
    cluster.begin(reading.attempt)
    cluster.launch(f"{job}.r2.0")
    assert isinstance(cluster.ending(f"{job}.r2.0"), AttemptSucceeded)


def test_without_a_slot_it_may_neither_compute_nor_have_succeeded(cluster, job):
    """Whatever code of a job gets hold of its attempt's link."""
    top = (
        "from railyard.nodemanager.attempt import umbilical\n"
        "umbilical.Umbilical.wait_for_slot = lambda self, has_all: False\n"
    )
    file = cluster.folder.path / "hasty.py"
    file.write_text(READER.format(top=top, work="pass"))
    cluster.load_package(job, pack_file(file), rack="r0")
    cluster.launch(f"{job}.r1.0", begins=False)
    failed = cluster.ending(f"{job}.r1.0")
    assert isinstance(failed, AttemptFailed)
    assert "has no slot" in failed.reason
    link = cluster.transport.link("nodemanager-r0")
    with pytest.raises(Refused, match="did not come from it"):
        link.call(AskToCompute(attempt=f"{job}.r1.0"), Done)
    link.close()


def test_waiting_for_a_slot_takes_no_cpu_no_permit_and_is_no_silence(start_cluster):
    many = 2 * permits_of_machine()
    cluster = start_cluster(
        racks=RackShape(count=1, nodes=1, slots=1),
        liveness=Liveness(heartbeat=0.1, expiry_s=4.0, task_timeout=0.8),
    )
    cluster.load("j1", READER.format(top="", work="pass"))
    attempts = [f"j1.r{index}.0" for index in range(many)]
    for attempt in attempts:
        cluster.launch(attempt, begins=False)
    for attempt in attempts:
        cluster.fact(AttemptReady, attempt=attempt)
    processes = [psutil.Process(cluster.pid(attempt)) for attempt in attempts]

    def woken():
        return [process.num_ctx_switches().voluntary for process in processes]

    for _ in range(8):  # on a busy machine they go to sleep when they can
        before = woken()
        cluster.idle(1.2)  # longer than the time-out
        if woken() == before:
            break
    else:
        pytest.fail("they wake up while they wait")
    cluster.launch(f"j1.r{many}.0")
    assert isinstance(cluster.ending(f"j1.r{many}.0"), AttemptSucceeded)
    for attempt in attempts:
        cluster.begin(attempt)
        assert isinstance(cluster.ending(attempt), AttemptSucceeded)


def test_once_it_has_a_slot_its_silence_counts(start_cluster):
    cluster = start_cluster(
        liveness=Liveness(heartbeat=0.1, expiry_s=4.0, task_timeout=0.8),
    )
    reading = Reading(cluster, "j1", work="import time; time.sleep(60)")
    reading.become_ready()
    cluster.begin(reading.attempt)
    assert cluster.ending(reading.attempt).reason.startswith("reported nothing for 0.8 s")


def test_it_ends_with_its_nodemanager(start_cluster):
    cluster = start_cluster()
    reading = Reading(cluster, "j1")
    reading.become_ready()
    pid = cluster.pid(reading.attempt)
    cluster.nodemanager("r0").kill()
    cluster.until(lambda: gone(pid))


def test_what_it_holds_counts_against_its_memory(start_cluster):
    cluster = start_cluster(
        compute=Compute(mode="real", memory=70_000_000),
    )
    cluster.load("j1", READER.format(top="", work="pass"))
    write_output(output_path(cluster.folder, "r1n0", "j1.m0.0"), [[os.urandom(120_000_000)]])
    cluster.launch("j1.r0.0", reads=("m",), inputs=1, begins=False)
    cluster.fetch("j1.r0.0", "r0n0", "r1n0", "j1.m0.0", partition=0)
    failed = cluster.ending("j1.r0.0")
    assert isinstance(failed, AttemptFailed)
    assert "compute.memory allows 70 MB an attempt" in failed.reason


# Maps --------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def whole(start_cluster):
    """Paced: 4 MB/s of the model's bytes, and links of 4 MB/s."""
    return start_cluster(
        whole=True,
        scale=10,
        links=Links(nic=4e6, uplink=4e6),
        storage=Storage(block=4_000_000, replication=1),
        compute=Compute(mode="paced", map_rate=4e6, reduce_rate=8e6),
    )


@pytest.fixture
def stored_text(whole):
    """A split of 2 MB of the model's bytes, and where it is."""
    client = DfsClient(whole.transport, whole.config.topology)
    client.write("/text", [b"to be or not to be\n" * 10_000])
    [block] = client.locations("/text")
    yield Split(path="/text", stored_offset=0, stored_length=block.stored_length), block.nodes[0]
    client.remove("/text")
    client.close()


@pytest.mark.parametrize("when", ["ready", "reading", "at once"])
@pytest.mark.parametrize("where", ["local_bytes", "remote_bytes"])
def test_a_map_reads_its_split_ahead_and_computes_as_long_as_it_would(
    whole, stored_text, when, where
):
    split, holder = stored_text
    node = holder if where == "local_bytes" else f"r{1 - int(holder[1])}n0"
    job = new_job()
    whole.load(job, COUNT)
    attempt = f"{job}.m0.0"
    whole.launch(attempt, node, splits=(split,), partitions=1, begins=False)
    if when == "ready":
        whole.fact(AttemptReady, attempt=attempt)
        whole.idle(0.5)
    elif when == "reading":
        whole.pid(attempt)
        whole.idle(0.1)
    begun_s = time.monotonic()
    whole.begin(attempt, node)
    ending = whole.ending(attempt)
    assert time.monotonic() - begun_s >= 10 * split.stored_length / 4e6, "it computes all of it"
    assert getattr(ending, where) == ending.input_bytes == 10 * split.stored_length
    assert ending.counters["m.records_in"] == 10_000
    whole.send(node[:2], DiscardJob(job=job))
