"""Jobs of several steps in virtual time: each after the last, and one job in the summary."""

import math

import msgspec
import pytest

from railyard.cluster.errors import UsageError
from railyard.jobs.workloads.model import check_workload
from railyard.simulator.faults.faults import NodeDown
from tests.simulator.test_simulation import MB, job, simulation, topology


def steps(count, **of_each):
    """The steps of a job called "a"."""
    names = ["a", *(f"a.{number}" for number in range(2, count + 1))]
    return [
        msgspec.structs.replace(job(name=name, **of_each), after=before)
        for name, before in zip(names, ["", *names], strict=False)
    ]


def test_a_job_of_steps_takes_from_the_first_one_s_submission_to_the_last_one_s_end():
    # A map takes 2 s beside its block; each step has one, and there are slots for all.
    run = simulation(*steps(3, submit_s=1.0), job(name="b"), place=topology(nodes=1, slots=4))
    run.run()
    rows = {row["name"]: row for row in run.summary()["jobs"]}
    assert [*rows] == ["b", "a"], "in the order of their submission"
    (submitted_s, ended_s) = (rows["a"][key] for key in ("submitted_s", "finished_s"))
    assert (submitted_s, ended_s) == pytest.approx((1.0, 7.0))
    assert rows["a"]["jct_s"] == pytest.approx(6.0)
    assert rows["a"]["steps"] == ["j1", "j2", "j3"]
    assert "steps" not in rows["b"]
    begun_s = [run.core.records[step].submitted_s for step in rows["a"]["steps"]]
    assert begun_s == pytest.approx([1.0, 3.0, 5.0])
    assert run.summary()["jct_s"]["mean"] == pytest.approx((6.0 + 2.0) / 2)


def test_the_numbers_of_steps_are_added_up():
    alike = {"maps": 3, "reduces": 2, "shuffle": 60 * MB, "output": 30 * MB}
    run = simulation(*steps(2, **alike), place=topology(racks=2))
    run.run()
    summary = run.summary()
    [row] = summary["jobs"]
    records = list(run.core.records.values())
    assert (row["maps"], row["reduces"], row["ok"]) == (6, 4, True)
    assert row["shuffle_bytes"] == 2 * 60 * MB
    assert row["output_bytes"] == 2 * 30 * MB
    assert row["cct_s"] == max(cct_s for record in records for cct_s in record.cct_s)
    assert row["cross_rack_shuffle_bytes"] == sum(record.fetched.remote for record in records)
    assert row["reduce_s"] == pytest.approx(sum(record.reduce_s for record in records) / 4)
    assert summary["tasks"]["succeeded"] == 10
    links = [*records[0].sent_bytes.items(), *records[1].sent_bytes.items()]
    sent = {rack: sum(count for at, count in links if at == rack) for rack, _ in links}
    received = sum(sum(record.received_bytes.values()) for record in records)
    assert sum(sent.values()) == received
    assert row["shuffle_skew"] >= max(sent.values()) / min(sent.values())


def test_steps_after_one_that_failed_are_never_submitted():
    faults = tuple(NodeDown(node=f"r0n{n}", at_s=1.0, lasts_s=math.inf) for n in range(2))
    run = simulation(*steps(3), job(name="b", submit_s=500.0), faults=faults)
    run.run()
    assert [*run.core.records] == ["j1", "j4"]
    rows = {row["name"]: row for row in run.summary()["jobs"]}
    assert (rows["a"]["ok"], rows["a"]["jct_s"]) == (False, rows["a"]["finished_s"])


def test_a_step_comes_after_an_earlier_job():
    first, second = steps(2)
    check_workload([first, second])
    with pytest.raises(UsageError, match=r'job a.2: after = "a": need the name of an earlier job'):
        check_workload([second, first])
