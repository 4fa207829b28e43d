"""The live page of a cluster that runs jobs: what it is fed, and the page in headless Chromium."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import signal
from collections import Counter

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from playwright.sync_api import expect

from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import job_of, rack_of
from railyard.cluster.messages import DrainStarted, NodeActivated, NodeJoined, NodeLost
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import load_topology
from railyard.dfs.messages import SafeModeStatus
from railyard.gateway.address import known_url
from railyard.gateway.page.history import PHASES, EventTail, Feed, RunHistory, recorded
from railyard.gateway.page.live import Trouble
from railyard.gateway.page.viewers import Viewers
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, read_mix
from railyard.netemu.model.flows import CircuitChange
from railyard.resourcemanager.driving.coredriver import core_for
from railyard.resourcemanager.driving.eventlog import Step
from railyard.runs.simulation import VirtualRun, run_virtually
from railyard.simulator.behaviour import Behaviour
from tests.browser import WIDTHS
from tests.chromium import needs_chromium, new_page
from tests.command_line import SMALL, command_line
from tests.waiting import wait_for

#: Sets the slider to so many thousandths of the run.
MOVE = """{{
  const slider = document.querySelector(".scrubber input");
  slider.value = {at};
  slider.dispatchEvent(new Event("input"));
}}"""


@pytest.fixture(scope="module")
def railyard():
    yield from command_line()


@pytest.fixture(scope="module")
def cluster(railyard, tmp_path_factory):
    """The URL of a cluster's gateway after a TeraSort, and the folder that this left."""
    railyard.ok("up", "--topology", SMALL, "--network", "compute.map_rate=20MB/s")
    url = known_url(RunFolder(railyard.current()))
    out = tmp_path_factory.mktemp("run") / "out"
    railyard.ok("run", "terasort", "--size", "20MB", "--out", out)
    yield url, out
    railyard.ok("down")
    assert railyard.nothing_left()


def feed(url, until="done"):
    """The head and the rows that a viewer gets until there is one of a kind."""
    head, rows, kind = None, [], ""
    with requests.get(f"{url}/page/feed", stream=True, timeout=60) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        for line in answer.iter_lines():
            if line.startswith(b"event: "):
                kind = line[7:].decode()
            elif line.startswith(b"data: ") and kind == "whole":
                head = json.loads(line[6:])
            elif line.startswith(b"data: ") and kind == "rows":
                rows += json.loads(line[6:])
                if any(row[1] == until for row in rows):
                    return head, rows
    raise AssertionError(f"the feed ended without {until}")


def test_the_feed_has_what_a_job_did(cluster):
    url, _ = cluster
    head, rows = feed(url)
    assert (head["live"], head["slots"]) == (True, 6)
    assert head["topology"].startswith("small")
    nodes = {row[2] for row in rows if row[1] == "node"}
    assert {rack_of(node) for node in nodes} == set(head["racks"])
    ends = {row[2] for row in rows if row[1] == "end"}
    launches = [row for row in rows if row[1] == "launch"]
    first = next(row[2] for row in rows if row[1] == "job")
    assert {row[2] for row in launches if row[2].startswith(f"{first}.")} <= ends
    assert all(row[3] in nodes and row[6] for row in launches)
    _, again = feed(url)
    without = ("links", "circuit")
    assert [r for r in again if r[1] not in without][: len(launches)] == [
        r for r in rows if r[1] not in without
    ][: len(launches)]
    said = requests.get(f"{url}/page/log", params={"attempt": launches[0][2]})
    assert (said.status_code, said.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")


def test_an_attempt_that_left_nothing_is_no_error(cluster):
    url, _ = cluster
    assert requests.get(f"{url}/page/log", params={"attempt": "j99.m0.0"}).status_code == 204


@pytest.mark.parametrize(
    ("attempt", "file", "status"),
    [
        ("../logs", "stderr", 400),
        ("j1.m0.0/../../logs", "gateway.log", 400),
        ("j1.m0.0", "../stderr", 400),
        ("", "stderr", 400),
    ],
)
def test_no_other_file_can_be_read(cluster, attempt, file, status):
    url, _ = cluster
    answer = requests.get(f"{url}/page/log", params={"attempt": attempt, "file": file})
    assert answer.status_code == status
    assert "RemoteException" in answer.json()


def test_the_page_runs_its_own_script_and_no_other(cluster):
    url, _ = cluster
    for path in ("/", "/cluster"):
        answer = requests.get(url + path)
        assert answer.status_code == 200
        [script] = re.findall(r"<script>(.*?)</script>", answer.text, re.S)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = answer.headers["Content-Security-Policy"]
        assert f"script-src 'sha256-{digest}';" in policy
        assert "default-src 'none'" in policy


@needs_chromium
def test_a_sort_is_watched_to_its_end_and_a_job_is_killed(railyard, cluster, tmp_path):
    url, _ = cluster
    sorting = railyard.start("run", "terasort", "--size", "60MB")
    with new_page(tmp_path) as page:
        page.goto(url)
        expect(page.locator("#state")).to_have_text("live")
        # the latest: others check its output afterwards
        sort = page.locator(".jobs tr", has_text="terasort").first
        expect(sort).to_contain_text("runs")
        expect(page.locator("#over svg path[class*=place-]").first).to_be_attached()
        expect(sort).to_contain_text("succeeded")
        expect(page.locator("#over")).to_contain_text("slots by rack")
        expect(page.locator("#over")).to_contain_text("terasort")

        counting = railyard.start("run", "wordcount", "--size", "4GB")
        row = page.locator(".jobs tr", has_text=re.compile("wordcount.*runs"))
        expect(row.locator(".bar").first).to_be_attached()
        expect(page.locator(".decisions li").nth(2)).to_be_attached()
        page.locator(".decisions button").first.click()
        expect(page.locator("#details pre")).to_contain_text("stderr")
        expect(page.locator("#details")).to_contain_text("why here")
        expect(page.locator("#blocks .files button").first).to_be_attached()
        page.locator("#details .close").click()
        expect(page.locator("#details")).to_be_hidden()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            wait_for_draws(page, 2)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        row.locator(".kill").click()
        expect(row.locator(".kill")).to_have_text("really kill?")
        row.locator(".kill").click()
        killed = page.locator(".jobs tr", has_text=re.compile("wordcount.*killed"))
        expect(killed).to_be_attached()
    out, errors = sorting.communicate(timeout=60)
    assert sorting.returncode == 0, errors
    assert "verified" in out
    out, errors = counting.communicate(timeout=60)
    assert counting.returncode == 1
    assert "killed over HTTP" in out + errors


@needs_chromium
def test_a_finished_run_is_viewed_at_any_time_of_it(railyard, cluster, tmp_path):
    _, emulated = cluster
    simulated = tmp_path / "simulated"
    words = ("--workload", "terasort,size=600MB", "--topology", "flat-4x4", "--out", simulated)
    assert railyard.call("simulate", *words).returncode == 0
    for folder, clock in ((emulated, "emulated"), (simulated, "simulated")):
        command = railyard.start("view", folder)
        url = command.stdout.readline().split()[0]

        dark = folder == simulated
        browser = tmp_path / f"browser-{clock}"
        browser.mkdir()
        try:
            with new_page(browser, dark=dark) as page:
                watch_finished(page, url, clock, dark=dark)
        finally:
            command.send_signal(signal.SIGINT)
            _, errors = command.communicate(timeout=30)
        assert command.returncode == 0, errors


def wait_for_draws(page, more):
    """Wait until the page was drawn so many times more."""
    drawn = page.evaluate("railyard.drawn")
    # not Playwright's own waiting, which evaluates text within the page: its policy forbids that
    wait_for(lambda: page.evaluate("railyard.drawn") >= drawn + more, timeout_s=60)


def watch_finished(page, url, clock, *, dark):
    """The page of a finished run: its slider, and that it plays."""
    page.goto(url)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(21, 26, 35)" if dark else "rgb(255, 255, 255)")
    expect(page.locator("#state")).to_have_text(clock)
    bars = "document.querySelectorAll('#over svg')[1]?.innerHTML.length"
    wait_for(lambda: page.evaluate(bars))
    at_end = page.evaluate(bars)
    page.evaluate(MOVE.format(at=100))
    assert page.evaluate(bars) < at_end
    tables = []
    for at in range(100, 1000, 100):  # between two jobs none runs
        page.evaluate(MOVE.format(at=at))
        tables.append(page.text_content(".jobs"))
    assert any("runs" in table for table in tables)
    page.evaluate(MOVE.format(at=1000))
    assert page.evaluate(bars) == at_end
    assert "runs" not in page.text_content(".jobs")
    assert page.locator(".kill").count() == 0
    page.set_viewport_size({"width": 400, "height": 900})
    # once it is drawn for that width
    wait_for(lambda: page.evaluate("document.documentElement.scrollWidth") == 400)
    page.locator(".scrubber button").click()
    wait_for_draws(page, 4)


def test_what_is_no_run_is_said_in_a_line(railyard, tmp_path):
    done = railyard.call("view", tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path}: need the folder that run or simulate wrote" in done.stderr


def test_a_gateway_that_comes_back_shows_what_was(railyard, cluster):
    url, _ = cluster
    folder = RunFolder(railyard.current())
    [pid] = [p["pid"] for p in folder.processes() if p["name"] == "gateway"][-1:]
    os.kill(pid, signal.SIGKILL)

    def answers():
        try:
            return requests.get(url, timeout=5).status_code == 200
        except requests.ConnectionError:
            return False

    wait_for(answers, why="the gateway is back")
    _, rows = feed(url)
    assert any(row[1] == "launch" for row in rows)


# What the page gets of a run, against the run's own trace and summary.


WORDS = ("terasort,size=600MB", "wordcount,size=300MB,submit=200ms")


@pytest.fixture(scope="module", params=["fair", "shadow"])
def folder(request, tmp_path_factory):
    """What a simulated run of two jobs leaves."""
    topology = load_topology("flat-4x4")
    path = tmp_path_factory.mktemp("runs") / "run"
    run = VirtualRun(
        config=ClusterConfig(topology=topology, scheduler=request.param),
        workload=measured_workload(read_mix(WORDS, Defaults(size_bytes=10**9), 1), topology, 1),
        behaviour=Behaviour(),
        results=path,
    )
    run_virtually(run)
    return path


def rows_of(history):
    return [row for piece in history.whole() for row in json.loads(piece)]


def of_kind(rows, kind):
    return [row for row in rows if row[1] == kind]


def test_attempts_are_where_and_when_the_trace_has_them(folder):
    rows = rows_of(recorded(folder / "events.jsonl", folder / "network.jsonl"))
    trace = json.loads((folder / "trace.json").read_text())["traceEvents"]
    names = {row["pid"]: row["args"]["name"] for row in trace if row["name"] == "process_name"}
    shown = {
        row["args"]["attempt"]: (
            (names[row["pid"]], row["tid"], row["args"]["locality"]),
            (row["ts"] / 1e6, (row["ts"] + row["dur"]) / 1e6),
            {PHASES[name]: length_s for name, length_s in row["args"]["phases_s"].items()},
        )
        for row in trace
        if row.get("cat") == "attempt"
    }
    ends = {row[2]: row for row in of_kind(rows, "end")}
    launches = of_kind(rows, "launch")
    assert {row[2] for row in launches} == set(shown)
    for at_s, _, attempt, node, lane, level, why, _ in launches:
        place, times_s, phases_s = shown[attempt]
        assert (node, lane, level) == place
        assert (at_s, ends[attempt][0]) == pytest.approx(times_s, abs=1e-3)
        assert dict(ends[attempt][4]) == pytest.approx(phases_s, abs=1e-3)
        assert why


def test_what_was_fetched_and_what_became_of_jobs_adds_up(folder):
    rows = rows_of(recorded(folder / "events.jsonl", folder / "network.jsonl"))
    jobs = json.loads((folder / "summary.json").read_text())["jobs"]
    done = {row[2]: row for row in of_kind(rows, "done")}
    last = {row[2]: row for row in of_kind(rows, "status")}
    assert set(done) == set(last) == {job["id"] for job in jobs}
    for job in jobs:
        assert done[job["id"]][3] is True
        assert done[job["id"]][0] == pytest.approx(job["finished_s"], abs=1e-3)
        assert last[job["id"]][4] == 1.0
        maps = Counter(
            row[5] for row in of_kind(rows, "launch") if row[2].startswith(f"{job['id']}.m")
        )
        assert last[job["id"]][6] == [
            maps[level] for level in ("node-local", "rack-local", "remote")
        ]
    across = sum(n for row in of_kind(rows, "pairs") for src, dst, n in row[2] if src != dst)
    assert across == sum(row[9] for row in last.values()) > 0


def test_links_carried_what_the_record_says(folder):
    rows = rows_of(recorded(folder / "events.jsonl", folder / "network.jsonl"))
    written = [json.loads(line) for line in (folder / "network.jsonl").read_text().splitlines()]
    totals: dict[str, int] = {}
    for row in written:
        totals |= row.get("bytes", {})
    told: dict[str, int] = {}
    for _, _, changed in of_kind(rows, "links"):
        told |= changed
    assert told == totals


@given(cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_a_log_may_be_read_in_pieces_of_any_length(pieces_folder, cuts):
    whole = (pieces_folder / "events.jsonl").read_bytes()
    expected = pieces_folder / "expected"
    topology = load_topology("flat-4x4")
    growing = pieces_folder / "growing.jsonl"
    tail, rows = EventTail(growing, ClusterConfig(topology=topology)), []
    for end in [*sorted(cut * len(whole) // 10_000 for cut in cuts), len(whole)]:
        growing.write_bytes(whole[:end])
        more = True
        while more:
            new, more = tail.read()
            rows += new
    assert json.loads(expected.read_text()) == json.loads(json.dumps(rows))


@pytest.fixture(scope="module")
def pieces_folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("pieces") / "run"
    topology = load_topology("flat-4x4")
    mix = read_mix(("wordcount,size=300MB",), Defaults(size_bytes=10**9), 1)
    run = VirtualRun(
        config=ClusterConfig(topology=topology),
        workload=measured_workload(mix, topology, 1),
        behaviour=Behaviour(),
        results=path,
    )
    run_virtually(run)
    rows, _ = EventTail(path / "events.jsonl", run.config).read()
    (path / "expected").write_text(json.dumps(rows))
    return path


def test_a_node_has_no_slots_while_it_is_drained_or_lost():
    core = core_for(ClusterConfig(topology=load_topology("flat-4x4")))
    feed = Feed(core)
    events = (
        NodeJoined(node="r0n0", rack="r0", slots=2),
        DrainStarted(node="r0n0"),
        NodeActivated(node="r0n0", slots=2),
        NodeLost(node="r0n0", reason="silent"),
    )
    for at_s, event in enumerate(events):
        feed.take(Step(at_s, event, core.handle(event, at_s), core.state))
    states = [row[4:] for row in feed.drain() if row[1] == "node"]
    assert states == [[2, "", False], [0, "", True], [2, "", False], [2, "silent", False]]


# What is wrong with daemons ----------------------------------------------------------------------
DIED = {"event": "died", "name": "namenode", "pid": 7, "how": "signal 9", "next": "it comes back"}
SAFE = SafeModeStatus(on=True, reported=3, needed=8, blocks=8)


def test_daemons_that_do_not_run_are_told_until_they_do(tmp_path):
    file = tmp_path / "supervisor.jsonl"
    trouble = Trouble(file)

    def told(*events, end="\n"):
        with file.open("a") as log:
            log.write("\n".join(map(json.dumps, events)) + end)
        trouble.read()
        return trouble.words()

    trouble.read()
    assert trouble.words() == []
    stopped = {"event": "suspended", "name": "datanode-r1", "pid": 9}
    words = [
        "datanode-r1 is stopped, until kill -CONT 9",
        "namenode died (signal 9): it comes back",
    ]
    assert told({"event": "ready"}, stopped, DIED) == words
    assert told(stopped | {"event": "resumed"}, end="") == words  # not whole yet
    assert told() == words[1:]
    assert not trouble.may_be_in_safe_mode
    assert told({"event": "started-again", "name": "namenode"}) == []
    assert trouble.may_be_in_safe_mode
    trouble.take_safe_mode(SAFE)
    assert trouble.words() == [str(SAFE)]
    assert told(DIED) == words[1:]  # what a NameNode said that has died does not count
    assert told({"event": "started-again", "name": "namenode"}) == []
    trouble.take_safe_mode(SAFE)
    trouble.take_safe_mode(replace(SAFE, on=False))
    assert trouble.words() == []
    assert not trouble.may_be_in_safe_mode


# What is kept and sent ---------------------------------------------------------------------------
def small_history(rows_max=10):
    return RunHistory({"live": True}, rows_max)


def job_rows(number):
    job = f"j{number}"
    return [
        [number, "job", job, "x", "default", "me", {"m": 1}, ["m"]],
        [number, "launch", f"{job}.m0.0", "r0n0", 0, "node-local", "", ""],
        [number, "done", job, True, "", False],
    ]


def test_of_many_jobs_the_oldest_that_have_ended_are_dropped_and_counted():
    history = small_history()
    history.take([[0, "node", "r0n0", "r0", 1, ""], *job_rows(0)[:2]])  # this one goes on
    for number in range(1, 9):
        history.take(job_rows(number))
        assert len(rows_of(history)) <= 11
    rows = rows_of(history)
    left = [row[2] for row in of_kind(rows, "job")]
    assert left[0] == "j0"
    assert left[1:] == [f"j{number}" for number in range(9 - len(left) + 1, 9)]
    assert of_kind(rows, "left-out")[-1][2] == 9 - len(left)
    assert of_kind(rows, "node")


def test_what_is_of_no_job_is_dropped_with_the_jobs_before_it_but_for_what_still_holds():
    history = small_history(rows_max=20)
    history.take([[0, "note", "a line was cut"]])
    for number in range(1, 100):
        lost = "" if number % 2 else "lost"
        pairs = [number, "pairs", [["r0", "r1", number]]]
        history.take([[number, "node", "r0n0", "r0", 1, lost], pairs, *job_rows(number)])
        assert len(rows_of(history)) <= 30
    rows = rows_of(history)
    first = of_kind(rows, "job")[0][0]
    assert [row[0] for row in of_kind(rows, "pairs")] == list(range(first + 1, 100))
    assert [row[0] for row in of_kind(rows, "node")] == list(range(first, 100))
    assert of_kind(rows, "note")


def test_a_circuit_is_told_again_when_it_is_lit_and_when_it_ends():
    history = small_history()
    common = {"src": "r0", "dst": "r1", "coflow": "j1.r", "circuit": 1}
    told = []
    for at_s, what in ((1.0, "set-up"), (1.01, "up"), (2.0, "down")):
        [row] = history.take_circuits([CircuitChange(at_s=at_s, what=what, **common)], 10.0)
        told.append(json.loads(row)[5:])
    assert told == [[11.0, None, None], [11.0, 11.01, None], [11.0, 11.01, 12.0]]
    assert [row[5:] for row in of_kind(rows_of(history), "circuit")] == [told[-1]]


class Connection:
    """One whose other end reads nothing."""

    aborted = False

    def abort(self):
        self.aborted = True


def test_a_viewer_that_does_not_keep_up_is_let_go_and_others_are_not():
    async def look():
        viewers = Viewers(small_history())
        connection = Connection()
        with viewers._one(connection) as slow, viewers._one(None) as quick:
            for number in range(300):
                viewers.send_time(float(number))
                await quick.get()
            assert slow.qsize() == 1
            assert await slow.get() is None
            assert connection.aborted
            assert len(viewers) == 1

    asyncio.run(look())


def test_racks_of_pairs_are_racks(folder):
    rows = rows_of(recorded(folder / "events.jsonl", folder / "network.jsonl"))
    racks = {rack_of(row[2]) for row in of_kind(rows, "node")}
    assert {end for row in of_kind(rows, "pairs") for pair in row[2] for end in pair[:2]} <= racks
    assert {job_of(row[2]) for row in of_kind(rows, "launch")} == {"j1", "j2"}
