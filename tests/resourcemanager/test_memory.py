"""What is kept of jobs that have ended: beyond the bound nothing more, under every scheduler."""

import gc
import sys

import msgspec
import pytest

from railyard.resourcemanager.process.taskhistory.kept import TaskHistory
from railyard.resourcemanager.schedulers import all_recipes
from tests.harness import tiny_cluster

_KEPT, _FIRST, _MORE = 2, 30, 10
#: Kinds of objects that belong to all of Python.
_SHARED = (type, type(sys), type(gc.collect), type(tiny_cluster))


def held_by(root):
    """How many objects are held by an object that nothing else needs, and their bytes."""
    seen, left, size_bytes = {id(root)}, [root], 0
    while left:
        one = left.pop()
        size_bytes += sys.getsizeof(one)
        for other in gc.get_referents(one):
            if id(other) not in seen and not isinstance(other, _SHARED):
                seen.add(id(other))
                left.append(other)
    return len(seen), size_bytes


def run_jobs(cluster, numbers):
    for number in numbers:
        cluster.submit(f"j{number}", maps=2, reduces=1)
        cluster.run()


@pytest.mark.parametrize("scheduler", sorted(all_recipes()))
def test_a_core_is_as_large_after_many_jobs_as_after_some(scheduler):
    cluster = tiny_cluster(racks=2, nodes=2, slots=2, scheduler=scheduler)
    core = cluster.core
    core._jobs._records_kept = _KEPT
    core._history._entries = type(core._history._entries)(maxlen=20)
    core._history.add = core._history._entries.append
    run_jobs(cluster, range(100, 100 + _FIRST))
    before, before_bytes = held_by(core)
    run_jobs(cluster, range(100 + _FIRST, 100 + _FIRST + _MORE))
    after, after_bytes = held_by(core)
    assert after <= before + _MORE // 2, "of each job something is kept for good"
    assert after_bytes <= before_bytes + 200 * _MORE


def test_ended_jobs_attempts_take_a_tenth_of_what_they_took():
    cluster = tiny_cluster(racks=2, nodes=2, slots=4)
    cluster.counters = {f"a counter of some length {number}": number for number in range(8)}
    history = TaskHistory(cluster.core.state)
    handle = cluster.core.handle

    def watched(event, now_s):
        commands = handle(event, now_s)
        history.take(now_s, event, commands)
        return commands

    cluster.core.handle = watched
    cluster.submit("j1", maps=40, reduces=10)
    cluster.run()
    known = history.of_job("j1")
    reports = [reports for _, _, reports in known.of_tasks(0, 50)]
    assert sum(map(len, reports)) == 50
    _, unpacked_bytes = held_by(reports)
    _, packed_bytes = held_by([known._outline, known._pieces])
    assert packed_bytes < unpacked_bytes / 10
    assert known.weight_bytes < packed_bytes
    assert msgspec.to_builtins(reports[0][0].counters) == cluster.counters
