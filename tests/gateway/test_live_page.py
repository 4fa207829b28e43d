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

from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import rack_of
from railyard.gateway.address import known_url
from tests.browser import BROWSER, WIDTHS
from tests.chromium import in_chromium
from tests.command_line import SMALL, command_line
from tests.waiting import wait_for

#: A row of the table of jobs, with these words in it.
ROW = "[...document.querySelectorAll('.jobs tr')].find((one) => /{words}/.test(one.textContent))"
#: Sets the slider to so many thousandths of the run.
MOVE = """{{
  const slider = document.querySelector(".scrubber input");
  slider.value = {at};
  slider.dispatchEvent(new Event("input"));
}}"""
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium: apt-get install chromium")


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


@needs_browser
def test_a_sort_is_watched_to_its_end_and_a_job_is_killed(railyard, cluster, tmp_path):
    url, _ = cluster
    sorting = railyard.start("run", "terasort", "--size", "60MB")
    started = []

    async def look(tab):
        await tab.open(url)
        await tab.until("document.querySelector('#state').textContent === 'live'")
        sort = ROW.format(words="terasort")  # the latest: others check its output afterwards
        await tab.until(f"/runs/.test({sort}?.textContent)")
        await tab.until("document.querySelectorAll('#over svg path[class*=place-]').length > 0")
        await tab.until(f"/succeeded/.test({sort}.textContent)")
        ended = await tab.value("document.querySelector('#over').textContent")
        assert "slots by rack" in ended
        assert "terasort" in ended

        started.append(railyard.start("run", "wordcount", "--size", "4GB"))
        row = ROW.format(words="wordcount.*runs")
        await tab.until(f"Boolean({row}?.querySelector('.bar'))")
        await tab.until("document.querySelectorAll('.decisions li').length > 2")
        await tab.click("document.querySelector('.decisions button')")
        await tab.until("/stderr/.test(document.querySelector('#details pre').textContent)")
        assert "why here" in await tab.value("document.querySelector('#details').textContent")
        await tab.until("document.querySelectorAll('#blocks .files button').length")
        await tab.click("document.querySelector('#details .close')")
        assert await tab.value("document.querySelector('#details').hidden")
        for width in WIDTHS:
            await tab.call(
                "Emulation.setDeviceMetricsOverride",
                width=width, height=900, deviceScaleFactor=1, mobile=False,
            )  # fmt: skip
            drawn = await tab.value("railyard.drawn")
            await tab.until(f"railyard.drawn > {drawn + 1}")
            assert await tab.value("document.documentElement.scrollWidth") <= width
        kill = f"{row}.querySelector('.kill')"
        await tab.click(kill)
        assert await tab.value(f"{kill}.textContent") == "really kill?"
        await tab.click(kill)
        await tab.until(f"Boolean({ROW.format(words='wordcount.*killed')})")

    in_chromium(tmp_path, look)
    out, errors = sorting.communicate(timeout=60)
    assert sorting.returncode == 0, errors
    assert "verified" in out
    out, errors = started[0].communicate(timeout=60)
    assert started[0].returncode == 1
    assert "killed over HTTP" in out + errors


@needs_browser
def test_a_finished_run_is_viewed_at_any_time_of_it(railyard, cluster, tmp_path):
    _, emulated = cluster
    simulated = tmp_path / "simulated"
    words = ("--workload", "terasort,size=600MB", "--topology", "flat-4x4", "--out", simulated)
    assert railyard.call("simulate", *words).returncode == 0
    for folder, clock in ((emulated, "emulated"), (simulated, "simulated")):
        command = railyard.start("view", folder)
        url = command.stdout.readline().split()[0]

        async def look(tab, url=url, clock=clock, dark=folder == simulated):
            await tab.open(url)
            ground = await tab.value("getComputedStyle(document.body).backgroundColor")
            assert ground == ("rgb(21, 26, 35)" if dark else "rgb(255, 255, 255)")
            await tab.until(f"document.querySelector('#state').textContent === '{clock}'")
            bars = "document.querySelectorAll('#over svg')[1].innerHTML.length"
            at_end = await tab.until(bars)
            await tab.value(MOVE.format(at=100))
            assert await tab.value(bars) < at_end
            tables = []
            for at in range(100, 1000, 100):  # between two jobs none runs
                await tab.value(MOVE.format(at=at))
                tables.append(await tab.value("document.querySelector('.jobs').textContent"))
            assert any("runs" in table for table in tables)
            await tab.value(MOVE.format(at=1000))
            assert await tab.value(bars) == at_end
            assert "runs" not in await tab.value("document.querySelector('.jobs').textContent")
            assert await tab.value("document.querySelectorAll('.kill').length") == 0
            await tab.call(
                "Emulation.setDeviceMetricsOverride",
                width=400, height=900, deviceScaleFactor=1, mobile=False,
            )  # fmt: skip
            # once it is drawn for that width
            await tab.until("document.documentElement.scrollWidth === 400")
            await tab.click("document.querySelector('.scrubber button')")
            drawn = await tab.value("railyard.drawn")
            await tab.until(f"railyard.drawn > {drawn + 3}")

        browser = tmp_path / f"browser-{clock}"
        browser.mkdir()
        try:
            in_chromium(browser, look, dark=folder == simulated)
        finally:
            command.send_signal(signal.SIGINT)
            _, errors = command.communicate(timeout=30)
        assert command.returncode == 0, errors


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
