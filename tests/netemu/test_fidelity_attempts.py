"""The job of ``benchmarks.fidelity.attempts``, and what is read off the log of its run."""

from pathlib import Path

import pytest

from railyard.benchmarks._network.concurrentshuffle import ConcurrentShuffle, part_of
from railyard.benchmarks.fidelity.attempts import shuffle_of
from railyard.cluster.config import ClusterConfig
from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.local import LocalIO, run_locally
from railyard.resourcemanager.driving.eventlog import EventLog
from tests.harness import tiny_cluster


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The folder of a job with three reduces, none of which runs."""
    for meeting in ("running", "fetched"):
        (tmp_path / meeting).mkdir()
    (tmp_path / "readers").write_text("3")
    return tmp_path


def test_every_reduce_gets_what_the_maps_sent_it(here: Path):
    (here / "running.all").touch()  # here all run one after the other
    (here / "fetched.all").touch()
    run = run_locally(ConcurrentShuffle(here=str(here), maps=2, part=1000), {}, reduces=3)
    assert run.counters["parts"] == 2 * 3
    sent = [len(part_of(source, reader, 1000)) for source in range(2) for reader in range(3)]
    assert sum(run.partition_bytes["m"]) == sum(sent)
    assert all(500 <= size <= 1500 for size in sent)
    assert len(set(sent)) > 1
    assert sorted(path.name for path in (here / "fetched").iterdir()) == ["0", "1", "2"]


def test_other_bytes_are_found(here: Path):
    (here / "fetched.all").touch()
    job = ConcurrentShuffle(here=str(here), maps=1, part=1000)
    io = LocalIO({}, [("m", part_of(0, 2, 1000))])
    with pytest.raises(ValueError, match="other bytes arrived"):
        job.stage("r").operator.run(TaskSpec(stage="r", index=1, reads=("m",), inputs=1), io, {})


def test_maps_wait_until_the_last_reduce_runs(here: Path):
    class Arriving(LocalIO):
        """One more reduce runs at each look."""

        def progress(self, share: float) -> None:
            super().progress(share)
            (here / "running" / str(len(self.reported))).touch()

    io = Arriving({})
    job = ConcurrentShuffle(here=str(here), maps=1, part=10)
    result = job.stage("m").operator.run(TaskSpec(stage="m", index=0, partitions=3), io, {})
    assert len(io.reported) == 4  # three before all had come, and one in the look that saw it
    assert len(result.partitions) == 3


def test_the_fetches_and_who_lives_while_they_last_are_read_off_the_log(tmp_path: Path):
    """Four slots: reduces run beside the map, and fetch once it is done."""
    options = {"shuffle.slowstart": 0.0}
    c = tiny_cluster(racks=2, nodes=2, slots=1, flow_s=3.0, options=options)
    c.submit("j0", maps=1, reduces=2, map_s=5.0, reduce_s=4.0, partition_bytes=4000)
    c.run()
    log = EventLog(
        tmp_path / "events", ClusterConfig(topology=c.topology, scheduler_options=options)
    )
    for (at_s, event), commands in zip(c.events, c.led_to, strict=True):
        log.write(at_s, event, commands)
    log.close()
    found = shuffle_of(tmp_path / "events", scale=1000)
    assert [(a.started_s, a.finished_s) for a in found.arrivals] == [(5.0, 8.0)] * 2
    assert [a.transfer.stored_bytes for a in found.arrivals] == [4, 4]
    assert found.alive == 2  # the map has ended
