"""What dies with what: helpers, NodeManagers, the ResourceManager; time-outs."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import psutil
import pytest

from railyard.cluster.machine import Exhausted
from railyard.cluster.messages import (
    AttemptFailed,
    AttemptKilled,
    AttemptStarted,
    AttemptSucceeded,
    DiscardJob,
    FactsJournaled,
    KillAttempt,
)
from railyard.cluster.topologyfile import Compute, Liveness
from railyard.jobs.package import pack_file
from railyard.nodemanager.limits import PAUSES_S, once_there_is_room
from railyard.nodemanager.permits import SharedPermits, permits_of_machine
from tests.nodemanager.test_attempts import elsewhere, job_source, package_of
from tests.waiting import gone, wait_for

SOURCE = """
import os, time
{top}
from railyard import Job
from railyard.jobs.model import Stage
from railyard.jobs.taskio import TaskResult

class Op:
    def run(self, task, io, counters):
        for _ in range(task.index):
            time.sleep(0.1)
            io.progress(0.5)
        if task.index == 0:
            time.sleep(60)
        return TaskResult(partitions=[[]] * task.partitions, counters=counters)

class Sleep(Job):
    def stages(self):
        return (Stage("m", Op()),)
"""


@pytest.fixture
def cluster(start_cluster):
    """One for each test: they do not leave it whole."""
    return start_cluster(liveness=Liveness(heartbeat=0.1, expiry_s=4.0, task_timeout=0.8))


def test_an_attempt_that_reports_nothing_is_killed_one_that_reports_is_not(cluster):
    cluster.load("j1", SOURCE.format(top=""))
    cluster.launch("j1.m0.0", partitions=1)
    cluster.launch("j1.m20.0", "r0n1", partitions=1)  # takes 2 s, in silence of 0.1 s
    failed = cluster.ending("j1.m0.0")
    assert isinstance(failed, AttemptFailed)
    assert failed.reason == "reported nothing for 0.8 s (liveness.task_timeout of the topology)"
    assert isinstance(cluster.ending("j1.m20.0"), AttemptSucceeded)


def test_an_import_that_hangs_is_given_up(cluster, tmp_path):
    file = tmp_path / "hangs.py"
    file.write_text(SOURCE.format(top=f"if os.getpid() != {os.getpid()}: time.sleep(60)"))
    cluster.load_package("j1", pack_file(file), rack="r0")
    cluster.launch("j1.m0.0", partitions=1)
    failed = cluster.ending("j1.m0.0")
    assert isinstance(failed, AttemptFailed)
    assert failed.reason.startswith("the job's module was not imported within 0.8 s (")


def test_a_module_is_imported_with_a_permit(cluster, tmp_path):
    mark = tmp_path / "imported"
    file = tmp_path / "marks.py"
    file.write_text(SOURCE.format(top=f"open({str(mark)!r}, 'a').close()"))
    package = pack_file(file)
    mark.unlink()  # packing it has imported it here
    count = permits_of_machine()
    all_permits = SharedPermits(cluster.folder.permits, count)
    taken = [all_permits.take() for _ in range(count)]
    assert None not in taken
    for job in ("j1", "j2"):
        cluster.load_package(job, package, rack="r0")
        cluster.launch(f"{job}.m1.0", partitions=1)
    cluster.idle(1.2)  # longer than the time-out
    assert not mark.exists()
    cluster.send("r0", DiscardJob(job="j2"))
    assert isinstance(cluster.ending("j2.m1.0"), AttemptKilled)
    os.close(all_permits._fd)
    assert isinstance(cluster.ending("j1.m1.0"), AttemptSucceeded)
    assert mark.exists()
    assert len(cluster.helper("r0").children()) == 1, "none for the job that was discarded"


def test_a_module_whose_import_sleeps_keeps_no_permit(cluster, tmp_path):
    file = tmp_path / "sleeps.py"
    file.write_text(SOURCE.format(top=f"if os.getpid() != {os.getpid()}: time.sleep(60)"))
    sleeping = [f"j{number}" for number in range(2, 2 + permits_of_machine())]
    for job in sleeping:
        cluster.load_package(job, pack_file(file), rack="r0")
    cluster.load("j1", SOURCE.format(top=""))
    cluster.launch("j1.m1.0", partitions=1)
    assert isinstance(cluster.ending("j1.m1.0"), AttemptSucceeded)


def running_family(cluster):
    """Everything on rack 0 while an attempt runs: the NodeManager first, the attempt last."""
    cluster.load("j1", SOURCE.format(top=""))
    cluster.launch("j1.m0.0", partitions=1)
    attempt = psutil.Process(cluster.pid("j1.m0.0"))
    manager = cluster.nodemanager("r0")
    return [manager, *manager.children(recursive=True)], attempt


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_nothing_outlives_the_nodemanager(cluster, signal_number):
    family, attempt = running_family(cluster)
    assert attempt in family
    family[0].send_signal(signal_number)
    wait_for(lambda: all(map(gone, family)))


def test_the_nodemanager_ends_without_its_helper(cluster):
    family, _ = running_family(cluster)
    os.kill(cluster.helper("r0").pid, signal.SIGKILL)
    wait_for(lambda: all(map(gone, family)))
    cluster.idle(0.2)
    (death,) = [row for row in cluster.folder.deaths() if row["name"] == "nodemanager-r0"]
    assert death["how"] == "exit 1"
    assert "the own helper is gone" in cluster.folder.log("nodemanager-r0").read_text()


def test_the_nodemanager_goes_on_under_another_resourcemanager(cluster):
    family, attempt = running_family(cluster)
    peer = cluster._peers["r0"]
    cluster.until(lambda: cluster.facts)
    assert cluster.server.push(peer, FactsJournaled(count=len(cluster.facts)))
    cluster.launch("j1.m0.1", partitions=1)
    cluster.pid("j1.m0.1")
    cluster.server.close()
    cluster.facts.clear()
    cluster.serve()
    cluster.until(lambda: any(held.rack == "r0" for held in cluster.held))
    [held] = [held for held in cluster.held if held.rack == "r0"]
    there = [(one.attempt, one.node, one.has_slot, one.killed) for one in held.attempts]
    assert there == [("j1.m0.0", "r0n0", True, False), ("j1.m0.1", "r0n0", True, False)]
    assert (held.jobs, held.flows) == (("j1",), ())
    started = [fact.attempt for fact in cluster.facts if isinstance(fact, AttemptStarted)]
    assert started == ["j1.m0.1"]  # what was journaled is not told again
    assert not any(map(gone, family))
    cluster.launch("j1.m0.0", partitions=1)  # it was launched: nothing happens
    cluster.send("r0", KillAttempt(attempt="j1.m0.0", node="r0n0", reason="enough"))
    cluster.until(lambda: any(isinstance(fact, AttemptKilled) for fact in cluster.facts))
    cluster.launch("j1.m0.0", partitions=1)  # nor when it has ended
    cluster.idle(0.2)
    assert "j1.m0.0" not in [f.attempt for f in cluster.facts if isinstance(f, AttemptStarted)]
    assert gone(attempt.pid)


def test_stopping_takes_an_attempt_in_the_middle_along(cluster):
    family, _ = running_family(cluster)
    assert not any(map(gone, family))  # the fixture stops the cluster and looks for leftovers


#: Starts, with an empty environment, a process in a session of its own that is nobody's child.
RUNAWAY = """
import subprocess, sys
from pathlib import Path
from railyard import Job
from railyard.jobs.model import Stage

SLEEP = "import os, sys, subprocess; s = subprocess.Popen(['sleep', '60'], start_new_session=True)"
SLEEP += "; open(sys.argv[1], 'w').write(str(s.pid))"

class Op:
    def __init__(self, job): self.job = job
    def run(self, task, io, counters):
        note = Path(self.job.here) / str(task.index)
        subprocess.run([sys.executable, "-c", SLEEP, str(note)], env={}, start_new_session=True)
        import time; time.sleep(60)

class Runaway(Job):
    here: str = ""
    def stages(self):
        return (Stage("m", Op(self)),)
"""


@pytest.fixture
def patient(start_cluster):
    """One that does not kill attempts that report nothing."""
    return start_cluster()


@pytest.fixture
def runaway(patient, tmp_path):
    """Starts an attempt on rack 0 that starts such a process; the attempt and that process."""
    patient.load("j1", RUNAWAY, here=str(tmp_path))

    def start(number):
        patient.launch(f"j1.m{number}.0", "r0n0")
        note = tmp_path / str(number)
        patient.until(lambda: note.exists() and note.read_text(), 30)
        sleeping = psutil.Process(int(note.read_text()))
        assert set(sleeping.environ()) <= {"LC_CTYPE"}
        return psutil.Process(patient.pid(f"j1.m{number}.0")), sleeping

    return start


def test_what_escaped_from_an_attempt_ends_with_whoever_is_killed(patient, runaway):
    attempt, sleeping = runaway(0)
    attempt.kill()
    patient.until(lambda: gone(sleeping))
    attempt, sleeping = runaway(1)
    attempt.parent().kill()  # the job's helper
    patient.until(lambda: gone(sleeping))
    patient.fact(
        AttemptFailed, attempt="j1.m1.0"
    )  # what is launched before would go to that helper
    attempt, sleeping = runaway(2)
    other_attempt, other_sleeping = runaway(3)
    patient.helper("r0").kill()  # its NodeManager ends without it, and the supervisor goes on
    patient.until(lambda: gone(sleeping) and gone(other_sleeping))
    assert gone(attempt)
    assert gone(other_attempt)


def test_what_escaped_from_an_attempt_ends_with_its_nodemanager(patient, runaway):
    attempt, sleeping = runaway(0)
    patient.nodemanager("r0").kill()
    patient.until(lambda: gone(sleeping))
    assert gone(attempt)


def test_nobody_has_descriptors_of_those_it_was_forked_from(patient):
    """Neither lifelines nor sockets of others: what user code forks would keep them open."""
    family, attempt = running_family(patient)
    supervisor = psutil.Process(patient.process.pid)
    helper, job_helper = patient.helper("r0"), attempt.parent()
    for forked, parents in (
        (family[0], [supervisor]),
        (helper, [supervisor, family[0]]),
        (job_helper, [supervisor, family[0], helper]),
        (attempt, [supervisor, family[0], helper, job_helper]),
    ):
        inherited = set().union(*map(private_files, parents))
        assert not private_files(forked) & inherited


def private_files(process):
    """Pipes and sockets of a process, but for its standard streams."""
    entries = {int(entry.name): entry for entry in Path(f"/proc/{process.pid}/fd").iterdir()}
    found = {str(entry.readlink()) for number, entry in entries.items() if number > 2}
    return {file for file in found if file.startswith(("pipe:", "socket:"))}


# Writes that wait for room.


class Disk:
    """Full for so many writes."""

    def __init__(self, full_for, number=errno.ENOSPC):
        self._full_for = full_for
        self._number = number

    def write(self):
        self._full_for -= 1
        if self._full_for >= 0:
            raise OSError(self._number, "no")
        return "written"


@pytest.mark.parametrize("full_for", [0, 1, len(PAUSES_S)])
def test_room_is_waited_for_longer_and_longer(tmp_path, full_for):
    paused = []
    assert once_there_is_room(Disk(full_for).write, tmp_path, paused.append) == "written"
    assert paused == list(PAUSES_S[:full_for]) == sorted(paused)


def test_a_disk_that_stays_full_is_named(tmp_path):
    with pytest.raises(Exhausted, match=r"^no space left on /"):
        once_there_is_room(Disk(99).write, tmp_path, lambda _: None)


def test_what_does_not_pass_is_not_waited_for(tmp_path):
    with pytest.raises(OSError, match="no"):
        once_there_is_room(Disk(1, errno.EIO).write, tmp_path, pytest.fail)


# An attempt may use so much memory with all that it starts, and what is shared counts once.


MIB = 2**20


@pytest.fixture(scope="module")
def limited(start_cluster):
    """One whose attempts may have 256 MiB each."""
    return start_cluster(compute=Compute(mode="real", memory=256 * MIB))


#: Forks ``count`` children that do ``what`` and live on, each in a session of its own that its
#: parent does not wait for.
CHILDREN = """
        import mmap
        for _ in range({count}):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    Path(self.here, str(os.getpid())).touch()
                    {what}
                    time.sleep(60)
                os._exit(0)
            os.wait()
        time.sleep({then_s})
"""


def children(what, count=4, then_s=60):
    return CHILDREN.format(what=what, count=count, then_s=then_s)


FILL = "keep = b'x' * (%d * 2**20)"
SHARE = "import mmap; keep = mmap.mmap(-1, 320 * 2**20); "
SHARE += "[keep.write(b'x' * 2**20) for _ in range(320)]"


@pytest.mark.parametrize(
    ("work", "others"),
    [
        pytest.param(children(FILL % 70), " with the 4 processes that it started", id="children"),
        pytest.param(
            children(SHARE, count=1), " with the 1 process that it started", id="a mapping"
        ),
        pytest.param(f"{SHARE}; time.sleep(60)", "", id="a mapping of its own"),
    ],
)
def test_an_attempt_that_uses_too_much_with_what_it_started_is_killed(
    limited, job, tmp_path, work, others
):
    limited.load(job, job_source(work), here=str(tmp_path))
    limited.launch(f"{job}.m0.0")
    failed = limited.fact(AttemptFailed, attempt=f"{job}.m0.0")
    assert failed.reason.startswith("uses ")
    assert failed.reason.endswith(f" MB{others}: compute.memory allows 268 MB an attempt")
    assert all(gone(int(path.name)) for path in tmp_path.iterdir() if path.name.isdigit())


def test_a_module_may_have_no_more_when_it_is_imported(limited, job):
    limited.load_package(job, package_of(elsewhere("KEPT = bytearray(320 * 2**20)"), limited))
    limited.launch(f"{job}.m0.0")
    failed = limited.fact(AttemptFailed, attempt=f"{job}.m0.0")
    assert "the job's module cannot be imported: " in failed.reason
    assert failed.reason.endswith(": MemoryError (compute.memory allows 268 MB an attempt)")


@pytest.mark.parametrize(
    ("work", "top"),
    [
        pytest.param(children(FILL % 40, then_s=1), "", id="few in each"),
        pytest.param(
            "keep = b'x' * (150 * 2**20)" + children("pass", then_s=1),
            "",
            id="shared with what it forked",
        ),
        pytest.param(
            children(FILL % 40, then_s=1),
            "KEPT = b'x' * (200 * 2**20)",
            id="shared with its helper",
        ),
    ],
)
def test_memory_that_several_share_counts_once(limited, job, tmp_path, work, top):
    limited.load(job, job_source(work, top=top), here=str(tmp_path))
    limited.launch(f"{job}.m0.0", partitions=1)
    ending = limited.ending(f"{job}.m0.0")
    assert isinstance(ending, AttemptSucceeded), ending
    pids = [int(path.name) for path in tmp_path.iterdir() if path.name.isdigit()]
    assert len(pids) == 4
    limited.until(lambda: all(map(gone, pids)))
