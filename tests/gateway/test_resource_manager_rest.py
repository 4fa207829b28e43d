"""The ResourceManager's REST of a cluster that runs jobs, with yarn-api-client and by hand."""

from __future__ import annotations

import time

import pytest
import requests
from yarn_api_client.errors import APIError
from yarn_api_client.resource_manager import ResourceManager

from railyard.cluster.files.runfolder import RunFolder
from railyard.gateway.address import known_url
from tests.command_line import SMALL, command_line
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def railyard():
    yield from command_line()


@pytest.fixture(scope="module")
def url(railyard):
    said = railyard.ok("up", "--topology", SMALL, "--network", "compute.map_rate=20MB/s")
    url = known_url(RunFolder(railyard.current()))
    assert f"gateway    {url}" in said
    assert f"gateway    {url}" in railyard.ok("status")
    yield url
    railyard.ok("down")
    assert railyard.nothing_left()


def get(url, path, **parameters):
    return requests.get(f"{url}/ws/v1/cluster{path}", params=parameters)


def error(response):
    assert response.headers["Content-Type"].startswith("application/json")
    return response.status_code, response.json()["RemoteException"]["exception"]


def wordcounts(url):
    apps = get(url, "/apps", states="RUNNING", name="wordcount").json()["apps"]
    return apps["app"] if apps else []


def test_a_job_is_seen_and_killed(railyard, url):
    """It would take a minute; numbers add up at each look."""
    assert get(url, "/apps").json() == {"apps": None}
    client = ResourceManager([url])
    assert client.cluster_information().data["clusterInfo"]["state"] == "STARTED"
    job = railyard.start("run", "wordcount", "--size", "4GB", "--user", "ann")
    wait_for(lambda: wordcounts(url), why="the job runs")  # after that which makes its input
    [app] = wordcounts(url)
    assert (app["user"], app["finalStatus"]) == ("ann", "UNDEFINED")
    for _ in range(20):
        told = get(url, "/metrics").json()["clusterMetrics"]
        shares = ("availableVirtualCores", "allocatedVirtualCores", "reservedVirtualCores")
        assert told["totalVirtualCores"] == sum(told[share] for share in shares)
        time.sleep(0.02)
    found = client.cluster_application(app["id"]).data["app"]
    assert found["id"] == app["id"]
    nodes = client.cluster_nodes().data["nodes"]["node"]
    assert {node["rack"] for node in nodes} == {"/r0", "/r1", "/r2"}
    assert client.cluster_node(nodes[0]["id"]).data["node"]["state"] == "RUNNING"
    assert client.cluster_scheduler().data["scheduler"]["schedulerInfo"]["queueName"] == "root"
    assert client.cluster_application_attempts(app["id"]).data["appAttempts"]["appAttempt"]
    assert client.cluster_applications(user="bob").data == {"apps": None}

    asked = client.cluster_application_kill(app["id"])
    assert asked.data == {"state": "RUNNING"}
    out, errors = job.communicate(timeout=60)
    assert job.returncode == 1, out + errors
    assert "killed over HTTP" in out + errors
    state = client.cluster_application_state(app["id"]).data
    assert state == {"state": "KILLED"}
    again = requests.put(f"{url}/ws/v1/cluster/apps/{app['id']}/state", json={"state": "KILLED"})
    assert (again.status_code, again.json()) == (200, {"state": "KILLED"})
    told = client.cluster_metrics().data["clusterMetrics"]
    assert (told["appsKilled"], told["allocatedMB"]) == (1, 0)
    counts = client.cluster_application_statistics().data["appStatInfo"]["statItem"]
    assert {each["state"]: each["count"] for each in counts}["KILLED"] == 1


def test_wrong_requests(url):
    assert requests.get(f"{url}/cluster").status_code == 200
    assert error(get(url, "/apps/application_1_0001")) == (404, "NotFoundException")
    assert error(get(url, "/apps/x")) == (404, "NotFoundException")
    assert error(get(url, "/nodes/r9n9:1")) == (404, "NotFoundException")
    assert error(get(url, "/apps", states="NOSUCH")) == (400, "BadRequestException")
    assert error(get(url, "/apps", limit="-1")) == (400, "BadRequestException")
    assert error(get(url, "/apps", limit="0")) == (400, "BadRequestException")
    state = f"{url}/ws/v1/cluster/apps/application_1_0001/state"
    assert error(requests.put(state, data="{")) == (400, "BadRequestException")
    assert error(requests.put(state, json={"state": "KILLED"})) == (404, "NotFoundException")
    assert error(requests.post(f"{url}/ws/v1/cluster/metrics"))[0] == 405
    with pytest.raises(APIError):
        ResourceManager([url]).cluster_application("application_1_0001")
