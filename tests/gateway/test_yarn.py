"""The ResourceManager's REST of a cluster that runs jobs, with yarn-api-client and by hand."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from textwrap import dedent

import pytest
import requests
from yarn_api_client.application_master import ApplicationMaster
from yarn_api_client.errors import APIError
from yarn_api_client.history_server import HistoryServer
from yarn_api_client.node_manager import NodeManager
from yarn_api_client.resource_manager import ResourceManager

from railyard.cluster.runfolder import RunFolder
from railyard.gateway.address import known_url
from tests.command_line import SMALL, command_line
from tests.waiting import wait_for

COUNT = """
    from railyard import Job
    class Count(Job):
        def map(self, line):
            for word in line.split():
                self.count("words")
                yield word, 1
        def reduce(self, word, counts):
            yield word, sum(counts)
"""
SLEEPS = """
    import time
    def map(line):
        time.sleep(SECONDS)
        yield line, 1
    def reduce(line, counts):
        yield line, sum(counts)
"""
TASKS = "org.apache.hadoop.mapreduce.TaskCounter"


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


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with jobs and texts of 10 lines with 20 words each."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "count.py").write_text(dedent(COUNT))
    (folder / "short.py").write_text(dedent(SLEEPS).replace("SECONDS", "0.02"))
    (folder / "long.py").write_text(dedent(SLEEPS).replace("SECONDS", "60"))
    (folder / "texts").mkdir()
    for name in "ab":
        (folder / "texts" / f"{name}.txt").write_text("to be\nor not\n" * 5)
    paths = [str(folder / "texts" / f"{name}.txt") for name in "ab"]
    rows = [
        {"job": str(folder / "short.py"), "input": paths, "user": user}
        for user in ("ann", "bob", "cat")
    ]
    text = "".join(
        "[[job]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in row.items())
        for row in rows
    )
    (folder / "jobs.toml").write_text(text)
    return folder


def get(url, path, **parameters):
    return requests.get(f"{url}/ws/v1/cluster{path}", params=parameters)


def error(response):
    assert response.headers["Content-Type"].startswith("application/json")
    return response.status_code, response.json()["RemoteException"]["exception"]


def apps(url, **wanted):
    found = get(url, "/apps", **wanted).json()["apps"]
    return found["app"] if found else []


def counted(groups, group, value="value"):
    """{counter: count} of a group."""
    [found] = [each for each in groups if each["counterGroupName"] == group]
    return {each["name"]: each[value] for each in found["counter"]}


@pytest.fixture(scope="module")
def app(railyard, url, files):
    """A job that has ended: it counted the words of the texts."""
    railyard.ok("run", "./count.py", "--input", "texts", "--user", "ann", cwd=files)
    [app] = apps(url, name="count")
    return app


def test_history_of_a_job_that_ended(url, app):
    history = HistoryServer(url)
    assert history.application_information().data["historyInfo"]["hadoopVersion"] == "3.4.1"
    rows = history.jobs(state="SUCCEEDED", user="ann").data["jobs"]["job"]
    [row] = [each for each in rows if each["id"] == app["id"].replace("application", "job")]
    assert history.jobs(user="nobody").data == {"jobs": None}
    job = history.job(row["id"]).data["job"]
    reduces = job["reducesTotal"]
    assert (job["mapsTotal"], job["mapsCompleted"], job["reducesCompleted"]) == (2, 2, reduces)
    assert (job["successfulMapAttempts"], job["successfulReduceAttempts"]) == (2, reduces)
    assert row["submitTime"] <= row["startTime"] < row["finishTime"]
    assert history.job_attempts(row["id"]).data["jobAttempts"]["jobAttempt"][0]["id"] == 1
    conf = history.job_conf(row["id"]).data["conf"]["property"]
    named = {each["name"]: each["value"] for each in conf}
    assert (named["mapreduce.job.name"], named["mapreduce.job.maps"]) == ("count", "2")

    groups = history.job_counters(row["id"]).data["jobCounters"]["counterGroup"]
    of_job = counted(groups, TASKS, "totalCounterValue")
    assert (
        of_job.items()
        >= {
            "MAP_INPUT_RECORDS": 20,
            "MAP_OUTPUT_RECORDS": 40,
            "REDUCE_INPUT_RECORDS": 40,
            "REDUCE_INPUT_GROUPS": 4,
            "REDUCE_OUTPUT_RECORDS": 4,
        }.items()
    )
    assert of_job["MAP_OUTPUT_BYTES"] == of_job["REDUCE_SHUFFLE_BYTES"] > 0
    assert counted(groups, "Counters", "mapCounterValue") == {"words": 40}
    of_maps = counted(groups, "org.apache.hadoop.mapreduce.JobCounter", "totalCounterValue")
    near = ("DATA_LOCAL_MAPS", "RACK_LOCAL_MAPS", "OTHER_LOCAL_MAPS")
    assert sum(of_maps.get(level, 0) for level in near) == of_maps["TOTAL_LAUNCHED_MAPS"] == 2

    tasks = history.job_tasks(row["id"]).data["tasks"]["task"]
    assert len(tasks) == 2 + reduces
    assert {task["state"] for task in tasks} == {"SUCCEEDED"}
    maps = history.job_tasks(row["id"], "m").data["tasks"]["task"]
    assert [task["type"] for task in maps] == ["MAP", "MAP"]
    for task in maps:
        groups = history.task_counters(row["id"], task["id"]).data["jobTaskCounters"]
        numbers = counted(groups["taskCounterGroup"], TASKS)
        assert (numbers["MAP_INPUT_RECORDS"], numbers["MAP_OUTPUT_RECORDS"]) == (10, 20)
        assert history.job_task(row["id"], task["id"]).data["task"] == task
    shuffled = 0
    for task in history.job_tasks(row["id"], "r").data["tasks"]["task"]:
        [attempt] = history.task_attempts(row["id"], task["id"]).data["taskAttempts"]["taskAttempt"]
        named = row["id"], task["id"], attempt["id"]
        assert history.task_attempt(*named).data["taskAttempt"] == attempt
        assert attempt["startTime"] <= attempt["shuffleFinishTime"] <= attempt["finishTime"]
        groups = history.task_attempt_counters(*named).data["jobTaskAttemptCounters"]
        shuffled += counted(groups["taskAttemptCounterGroup"], TASKS)["REDUCE_SHUFFLE_BYTES"]
        assert attempt["rack"] == f"/{attempt['railyard']['node'][:2]}"
    assert shuffled == of_job["REDUCE_SHUFFLE_BYTES"]
    told = job["railyard"]
    assert (told["mapsOnNode"] + told["mapsInRack"] + told["mapsElsewhere"]) == 2
    assert told["networkBytesMeanwhile"]["betweenRacks"] >= told["crossRackShuffleBytes"]
    assert [(stage["name"], stage["done"]) for stage in told["stages"]] == [
        ("m", 2),
        ("r", reduces),
    ]


def test_clients_find_the_gateway_by_its_configuration(railyard, app, monkeypatch):
    folder = RunFolder(railyard.current()).client_files
    monkeypatch.setattr("yarn_api_client.hadoop_conf.CONF_DIR", str(folder))
    assert ResourceManager().cluster_information().data["clusterInfo"]["haState"] == "ACTIVE"
    assert HistoryServer().jobs(user="ann").data["jobs"]["job"]
    info = ApplicationMaster().application_information(app["id"]).data["info"]
    assert info["appId"] == app["id"]


def test_an_application_is_submitted(railyard, url, files):
    """With the field of ours; a command of an ApplicationMaster is refused."""
    client = ResourceManager([url])
    railyard.ok("fs", "put", files / "texts" / "a.txt", "/words/a.txt")
    new = client.cluster_new_application().data
    assert new["maximum-resource-capability"] == {"memory": 1024, "vCores": 1}
    asked = {"application-id": new["application-id"], "application-name": "sorted"}
    with pytest.raises(APIError, match="no command of an ApplicationMaster can run here"):
        client.cluster_submit_application(asked | {"am-container-spec": {"commands": {}}})
    own = {"user": "ann", "input": ["/words"], "output": "/sorted", "mapper": "cat"}
    with pytest.raises(APIError, match="railyard: Object contains unknown field"):
        client.cluster_submit_application(asked | {"railyard": own | {"x": 1}})
    with pytest.raises(APIError, match="application-id: need one that new-application gave"):
        client.cluster_submit_application(asked | {"application-id": 5, "railyard": own})
    answer = requests.post(f"{url}/ws/v1/cluster/apps", json=asked | {"railyard": own})
    assert (answer.status_code, answer.content) == (202, b"")
    again = asked | {"railyard": own | {"output": "/other"}}
    with pytest.raises(APIError, match="is not reserved, or was used already"):
        client.cluster_submit_application(again)

    def app():
        return requests.get(answer.headers["Location"]).json()["app"]

    wait_for(lambda: app()["finalStatus"] != "UNDEFINED", why="the job ends")
    told = app()
    assert (told["id"], told["name"], told["user"]) == (new["application-id"], "sorted", "ann")
    assert told["finalStatus"] == "SUCCEEDED", told["diagnostics"]
    assert [stage["name"] for stage in told["railyard"]["stages"]] == ["m", "r"]
    job = told["id"].replace("application", "job")
    groups = HistoryServer(url).job_counters(job).data["jobCounters"]["counterGroup"]
    of_job = counted(groups, TASKS, "totalCounterValue")
    assert (of_job["MAP_INPUT_RECORDS"], of_job["REDUCE_INPUT_RECORDS"]) == (10, 10)


def adds_up(url):
    """Check the numbers; whether the answers were of the same state, with attempts at work."""
    answers = [get(url, path) for path in ("/metrics", "/nodes", "/apps", "/scheduler")]
    told = answers[0].json()["clusterMetrics"]
    parts = "appsCompleted", "appsPending", "appsRunning", "appsFailed", "appsKilled"
    assert told["appsSubmitted"] == sum(told[part] for part in parts)
    for unit in ("MB", "VirtualCores"):
        shares = ("available", "allocated", "reserved")
        assert told[f"total{unit}"] == sum(told[f"{share}{unit}"] for share in shares)
    if len({answer.headers["Railyard-Events"] for answer in answers}) > 1:
        return False
    nodes = answers[1].json()["nodes"]["node"]
    found = (answers[2].json()["apps"] or {"app": []})["app"]
    held = told["containersAllocated"]
    assert held == sum(node["numContainers"] for node in nodes)
    assert told["availableMB"] == sum(node["availMemoryMB"] for node in nodes)
    assert held == sum(app["runningContainers"] for app in found if app["runningContainers"] > 0)
    assert told["appsSubmitted"] == len(found)
    assert held == answers[3].json()["scheduler"]["schedulerInfo"]["numContainers"]
    return held > 0


def test_numbers_add_up_while_jobs_run(railyard, url, files):
    """Answers that were given after the same number of events are of the same state."""
    run = railyard.start("run", files / "jobs.toml")
    while run.poll() is None:
        adds_up(url)
    out, errors = run.communicate()
    assert run.returncode == 0, out + errors
    assert len([app for app in apps(url) if app["name"].startswith("short")]) == 3


def test_a_job_is_followed_and_killed(railyard, url, files):
    client, master = ResourceManager([url]), ApplicationMaster(url)
    assert client.cluster_information().data["clusterInfo"]["state"] == "STARTED"
    texts = [word for name in "ab" for word in ("--input", files / "texts" / f"{name}.txt")]
    run = railyard.start("run", files / "long.py", *texts, "--user", "eve")
    wait_for(lambda: apps(url, states="RUNNING", name="long"), why="the job runs")
    [app] = apps(url, states="RUNNING", name="long")
    assert (app["user"], app["finalStatus"]) == ("eve", "UNDEFINED")
    wait_for(lambda: adds_up(url), why="looks at the same state, with attempts at work")
    assert requests.get(app["trackingUrl"]).json()["job"]["name"] == "long"
    found = client.cluster_application(app["id"]).data["app"]
    assert found["id"] == app["id"]
    assert client.cluster_get_application_queue(app["id"]).data == {"queue": "default"}
    assert client.cluster_get_application_priority(app["id"]).data == {"priority": 0}
    assert client.cluster_applications(user="nobody").data == {"apps": None}
    assert client.cluster_scheduler_queue("root")["queueName"] == "root"

    # The ApplicationMaster
    job = app["id"].replace("application", "job")
    assert master.application_information(app["id"]).data["info"]["name"] == "long"
    [row] = master.jobs(app["id"]).data["jobs"]["job"]
    assert (row["id"], row["state"], row["mapsTotal"]) == (job, "RUNNING", 2)
    told = master.job(app["id"], job).data["job"]
    assert told["mapsCompleted"] + told["mapsRunning"] + told["mapsPending"] == 2
    assert master.job_attempts(app["id"], job).data["jobAttempts"]
    assert master.job_counters(app["id"], job).data["jobCounters"]["id"] == job
    assert master.job_conf(app["id"], job).data["conf"]["property"]
    tasks = master.job_tasks(app["id"], job).data["tasks"]["task"]
    running = [task for task in tasks if task["state"] == "RUNNING"]
    assert running
    waits = [task["railyard"]["waiting"] for task in tasks if task["state"] == "SCHEDULED"]
    assert all(waits)
    task = running[0]["id"]
    assert master.job_task(app["id"], job, task).data["task"]["type"] == "MAP"
    assert master.task_counters(app["id"], job, task).data["jobTaskCounters"]["id"] == task
    [attempt] = master.task_attempts(app["id"], job, task).data["taskAttempts"]["taskAttempt"]
    named = app["id"], job, task, attempt["id"]
    assert master.task_attempt(*named).data["taskAttempt"]["id"] == attempt["id"]
    assert master.task_attempt_counters(*named).data["jobTaskAttemptCounters"]
    state = master.task_attempt_state(*named).data["jobTaskAttemptState"]["state"]
    assert state in ("STARTING", "RUNNING")
    with pytest.raises(APIError, match="can't be killed by itself"):
        master.task_attempt_state_kill(*named)
    with pytest.raises(APIError, match="runs still"):
        HistoryServer(url).job(job)

    # Nodes
    nodes = client.cluster_nodes().data["nodes"]["node"]
    assert {node["rack"] for node in nodes} == {"/r0", "/r1", "/r2"}
    assert client.cluster_node(nodes[0]["id"]).data["node"]["state"] == "RUNNING"
    held = {}
    for node in nodes:
        manager = NodeManager(node["nodeHTTPAddress"])
        info = manager.node_information().data["nodeInfo"]
        assert (info["id"], info["nodeHealthy"]) == (node["id"], True)
        on_node = manager.node_applications(state="RUNNING", user="eve").data["apps"]
        for container in (manager.node_containers().data["containers"] or {}).get("container", []):
            assert manager.node_container(container["id"]).data["container"] == container
            assert container["id"] in on_node["app"][0]["containerids"]
            assert manager.node_application(app["id"]).data["app"]["user"] == "eve"
            held[container["id"]] = container["railyard"]["attempt"]
    assert held[attempt["assignedContainerId"]] == attempt["railyard"]["attempt"]
    at_path = requests.get(f"{url}/node/r0n1/ws/v1/node/info").json()["nodeInfo"]
    assert at_path["id"] == "r0n1:45454"

    # Containers
    [of_app] = client.cluster_application_attempts(app["id"]).data["appAttempts"]["appAttempt"]
    named = app["id"], of_app["appAttemptId"]
    assert client.cluster_application_attempt_info(*named).data["appAttempt"]["host"] == ""
    containers = client.cluster_application_attempt_containers(*named).data["containers"]
    assert {each["containerId"] for each in containers["container"]} == set(held)
    one = containers["container"][0]["containerId"]
    assert client.cluster_application_attempt_container_info(*named, one).data["container"]

    asked = client.cluster_application_kill(app["id"])
    assert asked.data == {"state": "RUNNING"}
    out, errors = run.communicate(timeout=60)
    assert run.returncode == 1, out + errors
    assert "killed over HTTP" in out + errors
    assert client.cluster_application_state(app["id"]).data == {"state": "KILLED"}
    again = requests.put(f"{url}/ws/v1/cluster/apps/{app['id']}/state", json={"state": "KILLED"})
    assert (again.status_code, again.json()) == (200, {"state": "KILLED"})
    told = client.cluster_metrics().data["clusterMetrics"]
    assert (told["appsKilled"], told["allocatedMB"]) == (1, 0)
    counts = client.cluster_application_statistics().data["appStatInfo"]["statItem"]
    assert {each["state"]: each["count"] for each in counts}["KILLED"] == 1
    ended = HistoryServer(url).job(job).data["job"]
    assert (ended["state"], ended["mapsCompleted"]) == ("KILLED", 0)
    assert ended["killedMapAttempts"] >= 1


def names_of(element):
    return {element.tag} | {name for child in element for name in names_of(child)}


def keys_of(value):
    if isinstance(value, dict):
        return set(value) | {key for each in value.values() for key in keys_of(each)}
    return {key for each in value for key in keys_of(each)} if isinstance(value, list) else set()


def test_xml_has_the_same_names_as_json(url, app):
    """Of every kind of answer."""
    job = app["id"].replace("application", "job")
    base = f"/ws/v1/history/mapreduce/jobs/{job}"
    task = requests.get(f"{url}{base}/tasks").json()["tasks"]["task"][0]
    attempt = f"{base}/tasks/{task['id']}/attempts/{task['successfulAttempt']}"
    of_cluster = ("info", "metrics", "scheduler", "nodes", "apps", "appstatistics")
    paths = [f"/ws/v1/cluster/{path}" for path in of_cluster]
    paths += [f"/ws/v1/cluster/apps/{app['id']}", f"/ws/v1/cluster/apps/{app['id']}/appattempts"]
    paths += ["/ws/v1/history/info", "/ws/v1/history/mapreduce/jobs", attempt]
    paths += [f"{base}{path}" for path in ("", "/counters", "/conf", "/tasks", "/jobattempts")]
    paths += [f"{attempt}/counters", f"/proxy/{app['id']}/ws/v1/mapreduce/jobs/{job}"]
    paths += ["/node/r0n0/ws/v1/node/info", "/node/r0n0/ws/v1/node/containers"]
    for path in paths:
        plain = requests.get(url + path)
        assert plain.headers["Content-Type"].startswith("application/json"), path
        answer = requests.get(url + path, headers={"Accept": "application/xml"})
        assert answer.headers["Content-Type"].startswith("application/xml"), path
        shown = names_of(ET.fromstring(answer.content))
        empty = {"acls", "attempts", "reserved", "queue", "queues", "reads"}
        assert keys_of(plain.json()) - shown <= empty, path
        assert shown <= keys_of(plain.json()), path
    missing = requests.get(f"{url}{base}9", headers={"Accept": "application/xml"})
    assert missing.status_code == 404
    assert ET.fromstring(missing.content).findtext("exception") == "NotFoundException"


def test_wrong_requests(url, app):
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
    job = app["id"].replace("application", "job")
    for path in (
        *(
            "job_1_0001",
            "x",
            app["id"],
            f"{job}0",
            f"{job}/tasks/x",
            f"{job}/tasks/task_1_0001_m_0",
        ),
        f"{job}/tasks/{job.replace('job', 'task')}_m_000099",
        f"{job}/tasks/{job.replace('job', 'task')}_m_000000/attempts/attempt_1",
    ):
        wrong = requests.get(f"{url}/ws/v1/history/mapreduce/jobs/{path}")
        assert error(wrong) == (404, "NotFoundException"), path
    tasks = f"{url}/ws/v1/history/mapreduce/jobs/{job}/tasks"
    assert error(requests.get(tasks, params={"type": "x"})) == (400, "BadRequestException")
    assert error(requests.get(f"{url}/ws/v1/node/info")) == (404, "NotFoundException")
    assert error(requests.get(f"{url}/node/r9n9/ws/v1/node/info")) == (404, "NotFoundException")
    assert error(requests.get(f"{url}/proxy/{app['id']}/ws/v1/mapreduce/jobs/job_1_0001"))[0] == 404
