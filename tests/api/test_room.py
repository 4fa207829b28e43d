"""Sizes are held against the disk before anything is generated."""

import pytest

from railyard.cluster import machine
from railyard.cluster.errors import UsageError
from railyard.cluster.machine import Exhausted, free_memory_bytes
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.mixes import Defaults, read_mix
from railyard.runs import room

TOPOLOGY = load_topology("hybrid-8x4")  # 3 copies, scale 1000


@pytest.fixture
def disk(monkeypatch, tmp_path):
    """A disk with 100 MB free."""
    monkeypatch.setenv("RAILYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(room, "free_bytes", lambda path: 100 * 10**6)
    return tmp_path / "home"


def test_input_and_output_count_with_their_copies_and_the_shuffle_once():
    assert room.needed_bytes(TOPOLOGY, 10, 20) == 3 * 10 + 20 + 3 * 20 + 8 * 10**6
    single = load_topology("unlimited-2x2,racks.count=1,racks.nodes=1")
    assert room.needed_bytes(single, 10, 10) == 10 + 10 + 10 + 8 * 10**6


def test_what_fits_is_no_matter(disk):
    room.require_room(None, TOPOLOGY, "terasort", 13 * 10**6, 13 * 10**6)
    assert not disk.exists()


def test_what_does_not_fit_is_reported_with_what_there_is(disk):
    with pytest.raises(
        UsageError, match=r"^terasort: takes about 106 MB of real bytes \(input"
    ) as e:
        room.require_room(None, TOPOLOGY, "terasort", 14 * 10**6, 14 * 10**6)
    assert f"but {disk} has 100 MB free: need a smaller size, or" in str(e.value)


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ("terasort,size=4GB,times=5", True),
        ("terasort,size=4GB,times=5,inputs=own", False),
        ("terasort,size=4GB,times=7", False),
    ],
)
def test_inputs_that_are_equal_count_once(disk, words, fits):
    mix = read_mix([words], Defaults(size_bytes=1), 1)
    if fits:
        room.require_room_for_mix(None, mix, TOPOLOGY)
    else:
        with pytest.raises(UsageError, match="takes about"):
            room.require_room_for_mix(None, mix, TOPOLOGY)


@pytest.fixture
def small_machine(monkeypatch):
    """A machine with 2 GB of memory free."""
    monkeypatch.setattr(room, "free_memory_bytes", lambda: 2 * 10**9)


def test_processes_that_fit_are_no_matter(small_machine):
    room.require_memory(TOPOLOGY, "terasort", tasks=10**6)  # 32 slots, 8 racks
    large = load_topology("co-scheduler-60x10")
    room.require_memory(large, "terasort", tasks=40)


@pytest.mark.parametrize(
    ("topology", "up", "reason"),
    [
        pytest.param(
            "co-scheduler-60x10",
            None,
            "sort: 6040 attempts at once and the daemons of 60 racks take about 63.5 GB of memory, "
            "but this machine has 2 GB free: need at most 44 at once: a smaller --size, fewer "
            "--reduces",
            id="attempts",
        ),
        pytest.param(
            "corral-7x30,racks.nodes=20",
            None,
            "need at most 174 at once: a smaller --size, fewer --reduces, or "
            "--network racks.slots=1",
            id="fewer-slots-a-node",
        ),
        pytest.param(
            "co-scheduler-60x10",
            RunFolder("/nowhere"),
            "sort: 6040 attempts at once take about 61.9 GB of memory, but this machine has 2 GB "
            "free: need at most 195 at once: a smaller --size, fewer --reduces",
            id="on-a-cluster-that-is-up",
        ),
        pytest.param(
            "co-scheduler-60x10,racks.count=100",
            None,
            "need fewer racks, such as --network racks.count=4, or railyard simulate",
            id="racks",
        ),
    ],
)
def test_processes_that_do_not_fit_are_refused_with_what_would(small_machine, topology, up, reason):
    with pytest.raises(Exhausted) as caught:
        room.require_memory(load_topology(topology), "sort", tasks=6040, up=up)
    assert reason in str(caught.value)


def test_attempts_that_wait_for_slots_take_memory_too(small_machine):
    """32 slots and more tasks: only with reservations may there be a process for each."""
    room.require_memory(TOPOLOGY, "sort", tasks=200)
    with pytest.raises(Exhausted) as caught:
        room.require_memory(TOPOLOGY, "sort", tasks=200, reserves=True)
    assert "sort: 200 attempts at once" in str(caught.value)
    assert str(caught.value).endswith("a smaller --size, fewer --reduces")


@pytest.mark.parametrize(
    ("line", "files"),
    [
        pytest.param(
            "0::/user/me",
            {"user/memory.max": "5000", "user/memory.current": "2000", "user/me/memory.max": "max",
             "user/memory.stat": "anon 1500\ninactive_file 300\n"},
            id="groups-of-today",
        ),
        pytest.param(
            "4:memory:/box",
            {"memory/box/memory.limit_in_bytes": "5000", "memory/box/memory.usage_in_bytes": "2000",
             "memory/box/memory.stat": "cache 400\ntotal_inactive_file 300\n"},
            id="groups-of-before",
        ),
    ],
)  # fmt: skip
def test_a_limit_of_a_control_group_is_the_machines(monkeypatch, tmp_path, line, files):
    assert 0 < free_memory_bytes() < 2**60
    root = tmp_path / "groups"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    read_text = type(root).read_text

    def read(path, *args, **kwargs):
        return line if str(path) == "/proc/self/cgroup" else read_text(path, *args, **kwargs)

    monkeypatch.setattr(type(root), "read_text", read)
    monkeypatch.setattr(machine, "_CONTROL_GROUPS", root)
    assert free_memory_bytes() == 5000 - 2000 + 300


def test_a_file_is_held_against_the_disk_with_its_copies(disk):
    up = RunFolder(disk)
    room.require_room_for_file(up, TOPOLOGY, "a", 30 * 10**6)
    room.require_room_for_file(up, TOPOLOGY, "a", 90 * 10**6, replication=1)
    with pytest.raises(
        UsageError, match=r"^b: 31 MB with 3 copies take 101 MB, but .* has 100 MB free: need"
    ):
        room.require_room_for_file(up, TOPOLOGY, "b", 31 * 10**6)


def test_jobs_that_are_measured_are_held_against_the_memory(monkeypatch):
    monkeypatch.setattr(room, "free_memory_bytes", lambda: 5 * 10**6)
    room.require_room_to_measure(
        read_mix(["terasort,size=1GB"], Defaults(size_bytes=1), 1), TOPOLOGY
    )
    with pytest.raises(Exhausted, match=r"in memory takes about 6 MB, but there is 5 MB free"):
        room.require_room_to_measure(
            read_mix(["terasort,size=2GB"], Defaults(size_bytes=1), 1), TOPOLOGY
        )


def test_a_simulation_that_memory_cannot_hold_is_refused_before_it_begins(monkeypatch):
    monkeypatch.setattr(room, "free_memory_bytes", lambda: 10**9)
    made = workload("corral-w1,jobs=10", 1)
    tasks = sum(stage.tasks for job in made.jobs for stage in job.stages)
    room.require_memory_for(made)
    monkeypatch.setattr(room, "free_memory_bytes", lambda: 6_000 * tasks)
    room.require_memory_for(made)
    with pytest.raises(
        Exhausted, match=r"tasks in each of 2 simulations at once take about .* free"
    ):
        room.require_memory_for(made, runs=2)


def test_very_many_jobs_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(room, "free_memory_bytes", lambda: 10**9)
    room.require_memory_to_make("corral-w1,jobs=10000", 1)
    with pytest.raises(
        Exhausted, match=r"^corral-w1,jobs=50000: .* tasks take about .* fewer jobs"
    ):
        room.require_memory_to_make("corral-w1,jobs=50000", 1)
    room.require_memory_to_make("corral-w1,jobs=50000,nonsense=1", 1)  # refused by its reader
