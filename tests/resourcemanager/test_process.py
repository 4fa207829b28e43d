"""The ResourceManager's conversations: real sockets, with stand-ins for everybody else."""

from __future__ import annotations

import itertools
import signal
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from railyard.cluster.errors import Refused
from railyard.cluster.messages import (
    AttemptDelayed,
    AttemptFailed,
    AttemptKilled,
    AttemptStarted,
    AttemptSucceeded,
    CancelFlow,
    DiscardJob,
    FetchOutput,
    FlowFailed,
    FlowFinished,
    KillAttempt,
    LaunchAttempt,
    LoadJob,
)
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.wire import Done
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.messages import BlocksLocated, Remove
from railyard.jobs.model import StageSpec
from railyard.netemu.messages import (
    FinishCoflow,
    OpenFlow,
    RegisterCoflow,
)
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    DataPlan,
    GetClusterStatus,
    GetReport,
    JobAccepted,
    JobEnded,
    KillJob,
    PlanData,
    Report,
    SubmitJob,
    WatchJob,
)
from railyard.runs.work import Due, run_all
from railyard.terminal.interrupts import Interrupted
from railyard.terminal.progress import View
from tests.resourcemanager.standins import MAPS_AND_REDUCE, PACKAGE, Office, Rack


def run_maps(office: Office, racks: list[Rack]) -> None:
    """Let both maps of a job over two blocks succeed."""
    for rack in racks:
        (launch,) = rack.wait_for(LaunchAttempt)
        rack.say(AttemptStarted(attempt=launch.attempt, pid=4000))
        rack.say(
            AttemptSucceeded(
                attempt=launch.attempt, input_bytes=700, local_bytes=700, partition_bytes=(90,)
            )
        )


def test_a_job_from_submission_to_its_output(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.store("/in", [(70, "r0n0"), (70, "r1n0")])
    job = office.submit()
    office.client.call(WatchJob(job=job), Done)
    (launch,) = racks[0].wait_for(LaunchAttempt)
    assert launch.task.splits[0].path == "/in"
    assert [type(order) for order in racks[0].orders] == [LoadJob, LaunchAttempt]
    assert racks[0].orders[0].package == PACKAGE
    run_maps(office, racks)

    office.wait(lambda: sum(len(rack.ordered(FetchOutput)) for rack in racks) == 2)
    reader = next(rack for rack in racks if rack.ordered(FetchOutput))
    fetches = reader.ordered(FetchOutput)
    office.wait(lambda: OpenFlow in map(type, office.network_said))
    opened = [said for said in office.network_said if isinstance(said, OpenFlow)]
    assert len(fetches) == 2
    assert [(o.src, o.dst, o.size_bytes) for o in opened] == [
        (next(f.src for f in fetches if f.src != reader.node), reader.node, 90)
    ]
    for fetch in fetches:
        reader.say(FlowFinished(flow=fetch.flow))
    reduce = reader.ordered(LaunchAttempt)[-1]
    reader.say(AttemptSucceeded(attempt=reduce.attempt, output_bytes=33))

    office.wait(lambda: any(isinstance(message, JobEnded) for message in office.received))
    assert office.received[-1].ok
    (moved,) = office.namenode_said
    (gather,) = moved.gathers
    assert gather.folders == (reduce.attempt,)
    assert (gather.source, gather.target) == ("/out/_temporary", "/out")
    assert (moved.markers, moved.remove) == (("/out/_SUCCESS",), ("/out/_temporary",))
    for rack in racks:
        rack.wait_for(DiscardJob)
    office.wait(lambda: FinishCoflow in map(type, office.network_said))
    assert office.network_said[0] == RegisterCoflow(coflow=f"{job}.r")


def test_the_report(office: Office):
    rack = Rack(office, "r0")
    office.store("/in", [(70, "r0n0")])
    job = office.submit(stages=(StageSpec(name="m"),))
    (launch,) = rack.wait_for(LaunchAttempt)
    rack.say(AttemptDelayed(attempt=launch.attempt, launch_s=0.5, permit_s=0.25))
    rack.say(AttemptSucceeded(attempt=launch.attempt, local_bytes=700, output_bytes=500))
    rack.wait_for(DiscardJob)
    summary = office.client.call(GetReport(jobs=((job,),)), Report).summary
    assert (summary["scheduler"], summary["clock"], summary["scale"]) == ("fair", "wall", 10)
    assert summary["bytes"]["local"] == 700
    assert summary["jobs"][0]["input_bytes"] == 700
    assert summary["jobs"][0]["output_bytes"] == 500
    assert 0 < summary["scheduling_s"]["max"] <= summary["scheduling_s"]["total"]
    assert summary["jobs"][0]["machine_s"] == 0.75
    fidelity = summary["fidelity"]
    assert set(fidelity) == {
        "grant_lag_ms_p99", "cpu_saturated", "network_away_s", "launch_s", "permit_s",
        "silent_daemons",
    }  # fmt: skip
    assert fidelity["launch_s"] == {"mean": 0.5, "max": 0.5}
    assert fidelity["permit_s"] == {"mean": 0.25, "max": 0.25}
    assert fidelity["silent_daemons"] == 0
    with pytest.raises(Refused, match="there is no job j9"):
        office.client.call(GetReport(jobs=(("j9",),)), Report)


def test_a_report_that_cannot_be_is_refused(office: Office):
    """Of two jobs that were steps of one; the daemon goes on."""
    rack = Rack(office, "r0")
    office.store("/in", [(70, "r0n0")])
    jobs = []
    for number in (1, 2):
        jobs.append(office.submit(stages=(StageSpec(name="m"),), output_path=f"/out{number}"))
        launch = rack.wait_for(LaunchAttempt, number)[-1]
        rack.say(AttemptSucceeded(attempt=launch.attempt, counters={"huge": 2**62}))
        rack.wait_for(DiscardJob, number)
    with pytest.raises(Refused, match="counter huge of "):
        office.client.call(GetReport(jobs=(tuple(jobs),)), Report)
    assert office.client.call(GetReport(jobs=((jobs[0],),)), Report).summary["jobs"]


def test_a_job_has_the_tags_that_it_was_submitted_with(office: Office):
    Rack(office, "r0")
    office.store("/in", [(70, "r0n0")])
    office.submit(stages=(StageSpec(name="m"),), tags=("airflow", "run-17"))
    (status,) = office.client.call(GetClusterStatus(), ClusterStatus).jobs
    assert status.tags == ("airflow", "run-17")


JOIN = (
    StageSpec(name="o", inputs=("orders",)),
    StageSpec(name="c", inputs=("customers",)),
    StageSpec(name="r", reads=("o", "c"), tasks=1),
)


def test_a_stage_reads_the_inputs_that_it_names(office: Office):
    rack = Rack(office, "r0", nodes=3)
    office.store("/o", [(70, "r0n0"), (20, "r0n1")])
    office.store("/p", [(30, "r0n2")])
    office.store("/c", [(10, "r0n0")])
    names = ("orders", "customers", "orders")
    office.submit(stages=JOIN, input_paths=("/o", "/c", "/p"), input_names=names)
    launched = [order.task for order in rack.wait_for(LaunchAttempt, 4)]
    read = {(task.stage, task.splits[0].path, task.splits[0].stored_length) for task in launched}
    assert read == {("o", "/o", 70), ("o", "/o", 20), ("o", "/p", 30), ("c", "/c", 10)}


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ((), 'stage "o" reads "orders": need an input "orders"'),
        (("orders",), "1 names for 2 inputs: need one for each"),
        (("orders", "names"), 'stage "c" reads "customers": need an input "customers"'),
    ],
)
def test_names_of_inputs_that_do_not_fit(office: Office, names: tuple[str, ...], error: str):
    office.store("/o", [(70, "r0n0")])
    with pytest.raises(Refused) as caught:
        office.submit(stages=JOIN, input_paths=("/o", "/o"), input_names=names)
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        pytest.param(
            {"stages": JOIN[:1], "input_paths": ("/in", "/in"), "input_names": ("orders", "no")},
            'no stage reads "no": need orders only',
            id="input that nobody reads",
        ),
        pytest.param(
            {"input_paths": ("/in", "/in"), "input_names": ("orders", "no")},
            'stage "m" names no input, of orders, no: need those that it reads',
            id="none of two inputs",
        ),
        pytest.param({"input_paths": ("/no",)}, "input /no: /no: nothing is there", id="missing"),
        pytest.param({"input_paths": ("/empty",)}, "input /empty: is empty", id="empty"),
        pytest.param({"output_path": "/in"}, "output /in: exists already", id="output exists"),
        pytest.param({"stages": ()}, "a job has no stages", id="no stages"),
        pytest.param({"input_paths": ()}, 'stage "m" reads files: need an input path', id="none"),
        pytest.param(
            {"stages": (StageSpec(name="m", tasks=2),)}, "need no input path", id="superfluous"
        ),
        pytest.param({"max_attempts": 0}, "max_attempts = 0: need at least 1", id="no attempts"),
    ],
)
def test_submissions_that_are_refused(office: Office, changes: dict[str, Any], error: str):
    office.store("/in", [(70, "r0n0")])
    office.store("/empty", [])
    with pytest.raises(Refused) as caught:
        office.submit(**changes)
    assert error in str(caught.value)
    assert office.client.call(GetClusterStatus(), ClusterStatus).jobs == ()


def test_two_jobs_do_not_write_to_the_same_folder(office: Office):
    office.store("/in", [(70, "r0n0")])
    job = office.submit()
    with pytest.raises(Refused, match=f"output /out: job {job} writes there"):
        office.submit()


def test_hidden_files_of_a_folder_are_no_input(office: Office):
    rack = Rack(office, "r0")
    office.store("/in/part-0", [(70, "r0n0")])
    office.store("/in/_SUCCESS", [(5, "r0n0")])
    files = tuple(office.files[f"/in/{name}"].files[0] for name in ("_SUCCESS", "part-0"))
    office.files["/in"] = BlocksLocated(folder=True, files=files)
    office.submit()
    rack.wait_for(LaunchAttempt)
    assert [o.task.splits[0].path for o in rack.ordered(LaunchAttempt)] == ["/in/part-0"]


def test_a_failed_job_tells_the_task_and_leaves_no_output(office: Office):
    rack = Rack(office, "r0")
    office.store("/in", [(70, "r0n0")])
    job = office.submit(max_attempts=1)
    office.client.call(WatchJob(job=job), Done)
    (launch,) = rack.wait_for(LaunchAttempt)
    rack.say(AttemptFailed(attempt=launch.attempt, reason="exit 1", stderr="KeyError: 'x'\n"))
    office.wait(lambda: any(isinstance(message, JobEnded) for message in office.received))
    ended = office.received[-1]
    assert (ended.ok, ended.failures[0].stderr) == (False, "KeyError: 'x'\n")
    assert f"task {job}.m0 failed 1 of 1 attempts, the last on r0n0: exit 1" in ended.reason
    office.wait(lambda: bool(office.namenode_said))
    assert office.namenode_said == [Remove(path="/out", recursive=True)]
    # Who watches late hears of it at once.
    office.received.clear()
    office.client.call(WatchJob(job=job), Done)
    office.wait(lambda: bool(office.received))
    assert office.received == [ended]


def test_a_job_can_be_killed_while_it_runs(office: Office):
    rack = Rack(office, "r0")
    office.store("/in", [(70, "r0n0")])
    job = office.submit()
    (launch,) = rack.wait_for(LaunchAttempt)
    wish = KillJob(job=job, reason="interrupted by its user")
    office.client.call(wish, Done)
    assert rack.wait_for(KillAttempt)[0].attempt == launch.attempt
    assert not rack.ordered(DiscardJob)
    rack.say(AttemptKilled(attempt=launch.attempt))
    rack.wait_for(DiscardJob)
    [row] = office.client.call(GetClusterStatus(), ClusterStatus).jobs
    assert (row.stopped, row.reason) == (True, "interrupted by its user")
    office.client.call(wish, Done)  # as a client sends it again whose connection broke
    assert len(rack.ordered(DiscardJob)) == 1
    with pytest.raises(Refused, match="job j9 does not exist"):
        office.client.call(KillJob(job="j9"), Done)


def test_progress_is_pushed_to_watchers(office: Office):
    Rack(office, "r0")
    office.store("/in", [(70, "r0n0")])
    office.client.call(WatchJob(job=office.submit()), Done)
    office.wait(lambda: len(office.received) >= 2)
    progress = office.received[-1]
    assert [(stage.name, stage.running, stage.tasks) for stage in progress.stages] == [
        ("m", 1, 1),
        ("r", 0, 1),
    ]
    assert progress.waiting == "slow start: 0 of 1 tasks of m done, needs 1"


def test_the_events_of_a_run_replay_to_its_orders(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.store("/in", [(70, "r0n0"), (70, "r1n0")])
    office.submit()
    run_maps(office, racks)
    office.wait(lambda: sum(len(rack.ordered(FetchOutput)) for rack in racks) == 2)
    office.client.call(KillJob(job="j1"), Done)
    for rack in racks:
        for order in rack.ordered(KillAttempt):
            rack.say(AttemptKilled(attempt=order.attempt))
        rack.wait_for(DiscardJob)
    replayed = [c for s in replay(office.folder.jobs / "events.jsonl") for c in s.commands]
    for rack in racks:
        launched = [c for c in replayed if isinstance(c, LaunchAttempt) and c.node == rack.node]
        assert launched == rack.ordered(LaunchAttempt)
        killed = [c for c in replayed if isinstance(c, KillAttempt) and c.node == rack.node]
        assert killed == rack.ordered(KillAttempt)


def test_who_announces_data_hears_where_it_should_go(office: Office):
    office.client.send(PlanData(path="/in", size_bytes=1))  # its answer goes to nobody
    assert office.client.call(PlanData(path="/in", size_bytes=10**9), DataPlan).racks == ()
    with pytest.raises(Refused, match=r"plan-data: Expected `int` >= 0 - at `\$\.size_bytes`"):
        office.client.call(PlanData(path="/in", size_bytes=-1), DataPlan)


def test_orders_reach_a_network_and_a_namenode_whose_connections_broke(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.store("/in", [(70, "r0n0"), (70, "r1n0")])
    office.break_connections()
    job = office.submit()
    office.client.call(WatchJob(job=job), Done)
    office.silence_network()
    run_maps(office, racks)
    office.wait(lambda: OpenFlow in map(type, office.network_said))
    office.network_said.clear()
    office.break_connections()  # before the network has answered
    office.wait(lambda: office.network_said)
    (resumed,) = office.network_said
    assert resumed.coflows == (f"{job}.r",)
    assert [flow.coflow for flow in resumed.flows] == [f"{job}.r"]


def test_a_fetch_whose_flow_is_refused_is_tried_again(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.store("/in", [(70, "r0n0"), (70, "r1n0")])
    office.refuse_flows()
    office.submit()
    run_maps(office, racks)
    office.wait(lambda: any(rack.ordered(CancelFlow) for rack in racks))
    reader = next(rack for rack in racks if rack.ordered(CancelFlow))
    office.wait(lambda: len(reader.ordered(FetchOutput)) >= 3)
    cancelled = reader.ordered(CancelFlow)[0].flow
    first, again = [f for f in reader.ordered(FetchOutput) if f.src != reader.node][:2]
    assert (first.flow, first.outputs) == (cancelled, again.outputs)


def test_a_job_fails_when_no_nodemanager_comes(folder: RunFolder):
    office = Office(folder, without_nodes=0.2)
    office.store("/in", [(70, "r0n0")])
    job = office.submit()
    office.client.call(WatchJob(job=job), Done)
    office.wait(lambda: any(isinstance(message, JobEnded) for message in office.received))
    assert "no node has been alive for 0.2 s (liveness.without_nodes" in office.received[-1].reason
    office.close()


def test_facts_are_believed_of_the_nodemanager_they_are_about_only(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.store("/in", [(70, "r0n0"), (70, "r1n0")])
    office.submit()
    (launch,) = racks[0].wait_for(LaunchAttempt)
    stranger = office.transport.link("resourcemanager")
    facts = (
        AttemptFailed(attempt=launch.attempt, reason="I say so"),
        AttemptDelayed(attempt=launch.attempt, launch_s=9.0, permit_s=9.0),
    )
    for link, fact in itertools.product((racks[1].link, stranger), facts):
        with pytest.raises(Refused, match=f"{launch.attempt} did not come from its NodeManager"):
            link.call(fact, Done)
    run_maps(office, racks)
    office.wait(lambda: sum(len(rack.ordered(FetchOutput)) for rack in racks) == 2)
    reader = next(rack for rack in racks if rack.ordered(FetchOutput))
    (other,) = [rack for rack in racks if rack is not reader]
    fetch = reader.ordered(FetchOutput)[0]
    lie = FlowFailed(flow=fetch.flow, reason="I say so", lost=fetch.outputs)
    with pytest.raises(Refused, match=f"flow-failed of {fetch.reader} did not come from"):
        other.link.call(lie, Done)


def test_more_bytes_than_a_job_may_shuffle_fail_the_attempt(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.store("/in", [(70, "r0n0"), (70, "r1n0")])
    job = office.submit(max_attempts=1)
    office.client.call(WatchJob(job=job), Done)
    for rack in racks:  # each alone would do
        (launch,) = rack.wait_for(LaunchAttempt)
        rack.say(AttemptSucceeded(attempt=launch.attempt, partition_bytes=(2**60 - 2**50,)))
    office.wait(lambda: any(isinstance(message, JobEnded) for message in office.received))
    assert (
        "bytes to shuffle: a job may have 1,152,921,504,606,846,976" in office.received[-1].reason
    )


def test_a_job_whose_source_is_too_large_is_refused_at_once(office: Office):
    for size, why in (
        (2**24, r"submit-job: a message of 16,7\d\d,\d\d\d bytes: the most is 16,777,216"),
        (2**24 - 2**16, r"submit-job: Expected `bytes` of length <= \d+ - at `\$.package.source`"),
    ):
        package = msgspec.structs.replace(PACKAGE, source=bytes(size))
        with pytest.raises(Refused, match=why):
            office.submit(package=package)
    with pytest.raises(Refused, match=r"input .*nothing is there"):  # only this is wrong then
        office.submit(package=msgspec.structs.replace(PACKAGE, source=bytes(10**7)))


def test_an_interrupt_between_an_answer_and_its_handling_loses_no_job(
    office: Office, monkeypatch: pytest.MonkeyPatch
):
    insist, answers = LastingLink.insist, []

    def interrupted(link, message, answer, on_answer, again=None):
        def answered(got, payload):
            answers.append(got)
            if len(answers) == 1:
                raise Interrupted(signal.SIGINT)
            on_answer(got, payload)

        insist(link, message, answer, answered if answer is JobAccepted else on_answer, again)

    monkeypatch.setattr(LastingLink, "insist", interrupted)
    office.store("/in", [(70, "r0n0")])
    words = {"name": "words", "package": PACKAGE, "stages": MAPS_AND_REDUCE}
    job = SubmitJob(**words, input_paths=("/in",), output_path="/out")
    session: Any = SimpleNamespace(reactor=office.reactor, transport=office.transport)
    with pytest.raises(Interrupted):
        run_all(session, [Due(job)], View())
    first, second = answers
    assert first == second
    [row] = office.client.call(GetClusterStatus(), ClusterStatus).jobs
    assert (row.stopped, row.reason) == (True, "interrupted by its user")
