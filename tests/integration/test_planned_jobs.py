"""Corral in real processes: it plans a mix as in virtual time, and its jobs outlive their racks."""

import os
import signal

from railyard.cluster.ids import job_of, rack_of
from railyard.cluster.messages.execution import LaunchAttempt, NodeLost
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.interface.commands import PlaceData
from railyard.resourcemanager.interface.events import DataAnnounced, JobsPredicted, JobSubmitted
from tests.command_line import SMALL
from tests.integration.processes import attempts_of, rows_of
from tests.waiting import wait_for


def test_a_mix_is_planned_ahead_as_in_virtual_time(railyard, tmp_path):
    railyard.ok(
        *("compare", "terasort,size=200MB,times=2,inputs=own", "wordcount,size=300MB"),
        *("--schedulers", "corral", "--topology", SMALL, "--out", tmp_path / "out"),
    )
    real, simulated = (
        list(replay(tmp_path / "out" / f"corral-maxmin-{clock}-1" / "events.jsonl"))
        for clock in ("wall", "virtual")
    )
    assert predicted(real) == predicted(simulated)
    planned = data_racks(real)
    assert planned == data_racks(simulated)
    assert list(planned) == ["terasort-1", "terasort-2", "wordcount"]
    for name, racks in planned.items():
        for steps in (real, simulated):
            assert {rack for rack, _ in launched(steps, name)} <= racks
            for there in racks_of_replicas(steps, name):
                assert len(there) == 2
                assert racks.intersection(there)
    assert railyard.nothing_left()


def test_a_job_outlives_the_only_rack_that_it_was_planned_for(railyard, tmp_path):
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    job = '{ name = "terasort", priority = 1, racks = ["r1"] }'
    plan.write_text(f'scenario = "batch"\nracks = 3\njobs = [{job}]\n')
    running = railyard.start(
        *("run", "terasort,size=1500MB,reduces=3", "--topology", SMALL, "--out", out),
        *("--scheduler", "corral", "--set", f"corral.plan={plan}"),
        *("--set", "corral.node_wait_s=0", "--set", "corral.rack_wait_s=0"),
        *("--restart", "never"),  # or its nodes would soon be back, with the output of their maps
    )
    try:
        wait_for(lambda: attempts_of(railyard, "j2.m4"), 40, "the first maps have ended")
        for role, name in (("NodeManager", "nodemanager-r1"), ("DataNode", "datanode-r1")):
            [killed] = rows_of(railyard, role, name)
            os.kill(killed["pid"], signal.SIGKILL)
        said, errors = running.communicate(timeout=60)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == 0, errors
    assert "verified" in said
    steps = list(replay(out / "events.jsonl"))
    for there in racks_of_replicas(steps, "terasort"):
        assert sorted(there.values()) == [1, 2]
        assert there["r1"] == 1
    lost = max(number for number, step in enumerate(steps) if isinstance(step.event, NodeLost))
    assert {rack for rack, _ in launched(steps[:lost], "terasort")} == {"r1"}
    after = launched(steps, "terasort")[len(launched(steps[:lost], "terasort")) :]
    assert {rack for rack, _ in after} <= {"r0", "r2"}
    assert {stage for _, stage in after} == {"m", "r"}
    wait_for(railyard.nothing_left, why="nothing is left")


def predicted(steps):
    """What is predicted of each job before it comes, but for when that is."""
    [predicted] = [step.event for step in steps if isinstance(step.event, JobsPredicted)]
    return {job.job: (job.forecast.name, job.forecast.stages) for job in predicted.jobs}


def data_racks(steps):
    """{job: the racks for the first replica of its input}."""
    return {
        step.event.job: set(order.racks[0])
        for step in steps
        if isinstance(step.event, DataAnnounced)
        for order in step.commands
        if isinstance(order, PlaceData)
    }


def submitted(steps, name):
    """The event of a job."""
    [job] = [
        step.event
        for step in steps
        if isinstance(step.event, JobSubmitted) and step.event.name == name
    ]
    return job


def racks_of_replicas(steps, name):
    """For each block that a job reads: {rack: replicas there}."""
    inputs = [one for stage in submitted(steps, name).stages for one in stage.inputs]
    racks = [[rack_of(node) for node in one.nodes] for one in inputs]
    return [{rack: there.count(rack) for rack in there} for there in racks]


def launched(steps, name):
    """Rack and stage of each attempt of a job, in order."""
    job = submitted(steps, name).job
    return [
        (rack_of(order.node), order.attempt.split(".")[1][0])
        for step in steps
        for order in step.commands
        if isinstance(order, LaunchAttempt) and job_of(order.attempt) == job
    ]
