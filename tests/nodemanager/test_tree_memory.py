"""An attempt may use so much memory with all that it starts, and what is shared counts once."""

import pytest

from railyard.cluster.messages.execution import AttemptFailed, AttemptSucceeded
from railyard.cluster.topologies.tables import Compute
from tests.nodemanager.test_attempt_processes import elsewhere, job_source, package_of
from tests.waiting import gone

MIB = 2**20


@pytest.fixture(scope="module")
def cluster(start_cluster):
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
    cluster, job, tmp_path, work, others
):
    cluster.load(job, job_source(work), here=str(tmp_path))
    cluster.launch(f"{job}.m0.0")
    failed = cluster.fact(AttemptFailed, attempt=f"{job}.m0.0")
    assert failed.reason.startswith("uses ")
    assert failed.reason.endswith(f" MB{others}: compute.memory allows 268 MB an attempt")
    assert all(gone(int(path.name)) for path in tmp_path.iterdir() if path.name.isdigit())


def test_a_module_may_have_no_more_when_it_is_imported(cluster, job):
    cluster.load_package(job, package_of(elsewhere("KEPT = bytearray(320 * 2**20)"), cluster))
    cluster.launch(f"{job}.m0.0")
    failed = cluster.fact(AttemptFailed, attempt=f"{job}.m0.0")
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
def test_memory_that_several_share_counts_once(cluster, job, tmp_path, work, top):
    cluster.load(job, job_source(work, top=top), here=str(tmp_path))
    cluster.launch(f"{job}.m0.0", partitions=1)
    ending = cluster.ending(f"{job}.m0.0")
    assert isinstance(ending, AttemptSucceeded), ending
    pids = [int(path.name) for path in tmp_path.iterdir() if path.name.isdigit()]
    assert len(pids) == 4
    cluster.until(lambda: all(map(gone, pids)))
