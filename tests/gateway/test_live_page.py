"""The live page of a cluster that runs jobs: what it is fed, and the page in headless Chromium."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import signal

import pytest
import requests
from playwright.sync_api import expect

from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import rack_of
from railyard.gateway.address import known_url
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
