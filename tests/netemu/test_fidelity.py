"""The job of ``benchmarks.fidelity.attempts``, and what is read off the log of its run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from railyard.benchmarks._network.concurrentshuffle import ConcurrentShuffle, part_of
from railyard.benchmarks._network.emulated import Arrival
from railyard.benchmarks._network.scenarios import (
    circuit_batches,
    dark_times_s,
    packet_batches,
    predict,
)
from railyard.benchmarks.fidelity.attempts import shuffle_of
from railyard.benchmarks.fidelity.networks import CIRCUITS, PACKETS
from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import rack_of
from railyard.cluster.messages import TaskSpec
from railyard.cluster.topology import load_topology
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


# What ``benchmarks.fidelity`` carries, and how it reads off what came of it.


def arrived(transfer, **times):
    return Arrival(
        transfer=transfer, **{"started_s": 0.0, "began_s": 0.0, "finished_s": 0.0, **times}
    )


@pytest.mark.parametrize("name", PACKETS)
def test_batches_take_as_long_as_they_should_on_any_network(name):
    topology = load_topology(name)
    alone, longer, shared, wider, shuffle = packet_batches(topology, rounds=1)
    for batch, seconds in ((alone, 0.25), (longer, 0.5), (shared, 1), (wider, 1), (shuffle, 2)):
        at_once = [arrived(transfer) for transfer in batch]
        assert max(predict(topology, at_once)) == pytest.approx(seconds, rel=1e-3)
    assert len(shuffle) >= 50
    assert all(t.stored_bytes < 2**24 for t in shuffle)


@pytest.mark.parametrize("name", CIRCUITS)
def test_each_coflow_has_one_circuit_at_every_port(name):
    topology = load_topology(name)
    (batch, _) = circuit_batches(topology, rounds=1)
    for coflow in ("batch0.1", "batch0.2"):
        pairs = [(rack_of(t.src), rack_of(t.dst)) for t in batch if t.coflow == coflow]
        racks = Counter(rack.id for rack in topology.rack_list())
        assert Counter(src for src, _ in pairs) == Counter(dst for _, dst in pairs) == racks
    assert all(t.stored_bytes * topology.scale >= topology.ocs.elephant_bytes for t in batch)


def test_a_circuit_is_dark_from_the_order_or_from_the_last_byte_before():
    """Three racks: i to i + 1, then i to i + 2, which waits for the ports out of i, into i + 2."""
    transfer = circuit_batches(load_topology(CIRCUITS[0]), rounds=1)[0][0]
    first = [
        arrived(transfer, started_s=0.0, began_s=0.011, finished_s=finished_s)
        for finished_s in (1.0, 2.0, 4.0)
    ]
    second = [
        arrived(replace(transfer, coflow="2"), started_s=0.5, began_s=began_s, finished_s=9.0)
        for began_s in (2.01, 4.02, 4.03)
    ]
    assert dark_times_s([*first, *second]) == pytest.approx([0.011] * 3 + [0.01, 0.02, 0.03])
