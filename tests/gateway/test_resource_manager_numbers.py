"""Numbers of the ResourceManager's REST: of one instant, so they add up."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from railyard.gateway.yarn.numbers import Numbers
from railyard.resourcemanager.process.messages import ClusterStatus, JobStatus, NodeStatus

BEGUN_MS = 1_700_000_000_000


@st.composite
def clusters(draw):
    jobs = []
    for number in range(1, draw(st.integers(0, 5)) + 1):
        state = draw(st.sampled_from(["running", "committing", "succeeded", "failed"]))
        over = state in ("succeeded", "failed")
        jobs.append(
            JobStatus(
                job=f"j{number}",
                name="n",
                user="u",
                queue=draw(st.sampled_from("ab")),
                state=state,
                progress=draw(st.sampled_from([0.0, 0.5, 1.0])),
                submitted_s=1.0,
                finished_s=3.0 if over else None,
                stopped=state == "failed" and draw(st.booleans()),
            )
        )
    running = [job.job for job in jobs if job.finished_s is None]
    nodes = []
    for number in range(draw(st.integers(1, 4))):
        held = draw(st.lists(st.sampled_from(running), max_size=3)) if running else []
        alive = draw(st.booleans())
        nodes.append(
            NodeStatus(
                node=f"r0n{number}",
                rack="r0",
                slots=draw(st.integers(0, 3)),
                attempts=tuple(f"{job}.m{at}.0" for at, job in enumerate(held)),
                alive=alive,
                lost_because="" if alive else "silent",
                drain=draw(st.sampled_from(["", "draining", "drained"])),
            )
        )
    named = {"scheduler": "fair", "flow_scheduler": "maxmin", "topology": "t", "now_s": 9.0}
    return Numbers(ClusterStatus(nodes=tuple(nodes), jobs=tuple(jobs), **named), BEGUN_MS)


@given(clusters())
def test_the_numbers_add_up(numbers):
    told = numbers.metrics()["clusterMetrics"]
    parts = "appsCompleted", "appsPending", "appsRunning", "appsFailed", "appsKilled"
    assert told["appsSubmitted"] == sum(told[part] for part in parts)
    for unit in ("MB", "VirtualCores"):
        shares = [told[f"{share}{unit}"] for share in ("available", "allocated", "reserved")]
        assert told[f"total{unit}"] == sum(shares)
        assert min(shares) >= 0
    nodes = [numbers.node(node) for node in numbers.status.nodes]
    states = Counter(node["state"] for node in nodes)
    named = {"activeNodes": "RUNNING", "lostNodes": "LOST"}
    named |= {f"decommission{how}Nodes": f"DECOMMISSION{how.upper()}" for how in ("ed", "ing")}
    assert {count: told[count] for count in named} == {c: states[s] for c, s in named.items()}
    assert told["totalNodes"] == states.total() == sum(told[count] for count in named)
    assert told["containersAllocated"] == sum(node["numContainers"] for node in nodes)
    assert told["availableMB"] == sum(node["availMemoryMB"] for node in nodes)
    apps = [numbers.app(job) for job in numbers.status.jobs]
    held = sum(app["runningContainers"] for app in apps if app["runningContainers"] >= 0)
    assert told["containersAllocated"] == held
    info = numbers.scheduler()["scheduler"]["schedulerInfo"]
    assert info["totalNodeCapacity"] == info["usedNodeCapacity"] + info["availNodeCapacity"]


def test_states_of_applications():
    def job(number, state, **fields):
        named = {"name": "n", "user": "u", "queue": "q", "progress": 0.0, "submitted_s": 2.0}
        return JobStatus(job=f"j{number}", state=state, **{**named, **fields})

    jobs = (
        job(1, "running"),
        job(2, "running", progress=0.25),
        job(3, "succeeded", finished_s=5.0, progress=1.0),
        job(4, "failed", finished_s=5.0, reason="a task failed"),
        job(12345, "failed", finished_s=5.0, stopped=True),
    )
    node = NodeStatus(node="r0n0", rack="r0", slots=2, attempts=("j2.m0.0",), alive=True)
    named = {"scheduler": "fair", "flow_scheduler": "maxmin", "topology": "t", "now_s": 9.0}
    numbers = Numbers(ClusterStatus(nodes=(node,), jobs=jobs, **named), BEGUN_MS)
    apps = [numbers.app(job) for job in jobs]
    assert [(app["state"], app["finalStatus"]) for app in apps] == [
        ("ACCEPTED", "UNDEFINED"),
        ("RUNNING", "UNDEFINED"),
        ("FINISHED", "SUCCEEDED"),
        ("FAILED", "FAILED"),
        ("KILLED", "KILLED"),
    ]
    assert apps[1]["id"] == f"application_{BEGUN_MS}_0002"
    assert apps[4]["id"] == f"application_{BEGUN_MS}_12345"
    assert (apps[1]["progress"], apps[1]["runningContainers"]) == (25.0, 1)
    assert (apps[1]["startedTime"], apps[1]["elapsedTime"]) == (BEGUN_MS + 2000, 7000)
    assert (apps[3]["finishedTime"], apps[3]["diagnostics"]) == (BEGUN_MS + 5000, "a task failed")
