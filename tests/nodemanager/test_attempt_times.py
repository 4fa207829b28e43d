"""For how long an attempt computes where its code sets the time: what counts, and what does not."""

import pytest

from railyard.cluster.messages.execution import AttemptSucceeded

JOB = """
import time
from railyard import Job
from railyard.jobs.model import Stage
from railyard.jobs.taskio import TaskResult

class Op:
    def run(self, task, io, counters):
        {work}
        return TaskResult(output={output}, counters=counters)

def lazily():
    for _ in range(4):
        time.sleep(0.05)
        yield b"piece"

class Only(Job):
    def stages(self):
        return (Stage("m", Op()),)
"""


@pytest.fixture(scope="module")
def cluster(start_cluster):
    return start_cluster()


@pytest.mark.parametrize(
    ("work", "output"),
    [
        pytest.param("time.sleep(0.2)", "()", id="at-once"),
        pytest.param("pass", "lazily()", id="as-it-is-read"),
    ],
)
def test_computing_is_what_the_code_takes(cluster, job, work, output):
    cluster.load(job, JOB.format(work=work, output=output))
    begin_s = cluster.reactor_now()
    cluster.launch(f"{job}.m0.0")
    ending = cluster.ending(f"{job}.m0.0")
    took_s = cluster.reactor_now() - begin_s
    assert isinstance(ending, AttemptSucceeded), ending
    assert 0.2 <= ending.computed_s <= took_s
    assert ending.read_s == 0
