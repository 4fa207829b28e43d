"""WebHDFS and YARN's REST interfaces: what a request gives has its effect, or is refused."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest
import requests

from tests.waiting import wait_for

IDLE = ("-mapper", "cat", "-reducer", "cat")


@pytest.fixture(scope="session", name="store")
def _store(hadoop):
    """Requests to WebHDFS: ``store(verb, path, op, data, ...)``."""

    def ask(verb, path, op, data=None, **given):
        url = f"{hadoop.url}/webhdfs/v1{path}"
        parameters = {"op": op, **{name.replace("_", "."): v for name, v in given.items()}}
        answer = requests.request(verb, url, params=parameters, allow_redirects=False)
        if data is not None and answer.status_code == 307:
            return requests.request(verb, answer.headers["Location"], data=data)
        return answer

    return ask


@pytest.fixture(scope="session", name="cluster")
def _cluster(hadoop):
    """Requests to what is below /ws/v1/."""

    def ask(path, **filters):
        return requests.get(f"{hadoop.url}/ws/v1/{path}", params=filters)

    return ask


@pytest.fixture(scope="session", name="job")
def _job(hadoop):
    """The application of a job that has ended, in the queue default, with a setting of its user."""
    hadoop.ok("hadoop", "fs", "-mkdir", "/rest")
    hadoop.put(b"a\nb\n", "/rest/in")
    _, said = hadoop.ok(
        *(
            "hadoop",
            "jar",
            "x.jar",
            "-D",
            "my.key=val",
            "-D",
            "mapreduce.job.queuename=root.default",
        ),
        *("-input", "/rest/in", "-output", "/rest/out", *IDLE),
    )
    [line] = [line for line in said.splitlines() if "Submitted application" in line]
    return line.split()[-1]


def why(answer, status, exception):
    told = answer.json()["RemoteException"]
    assert (answer.status_code, told["exception"]) == (status, exception)
    return told["message"]


# WebHDFS -----------------------------------------------------------------------------------------
def test_case_14_rename_has_options(store):
    for name in ("src", "dst"):
        assert store("PUT", f"/case14/{name}", "CREATE", name.encode()).status_code == 201
    onto = {"destination": "/case14/dst"}
    kept = store("PUT", "/case14/src", "RENAME", renameoptions="NONE", **onto)
    why(kept, 403, "FileAlreadyExistsException")
    silly = store("PUT", "/case14/src", "RENAME", renameoptions="NONSENSE", **onto)
    assert "renameoptions" in why(silly, 400, "IllegalArgumentException")
    done = store("PUT", "/case14/src", "RENAME", renameoptions="OVERWRITE", **onto)
    assert (done.status_code, done.content) == (200, b"")
    assert store("GET", "/case14/dst", "OPEN", b"").content == b"src"
    gone = store("PUT", "/case14/src", "RENAME", renameoptions="OVERWRITE", **onto)
    why(gone, 404, "FileNotFoundException")


def test_case_14_a_folder_takes_the_place_of_an_empty_one_only(store):
    for name in ("a/f", "full/f"):
        store("PUT", f"/case14b/{name}", "CREATE", b"x")
    store("PUT", "/case14b/empty", "MKDIRS")
    over = {"renameoptions": "OVERWRITE"}
    full = store("PUT", "/case14b/a", "RENAME", destination="/case14b/full", **over)
    assert "not empty" in why(full, 403, "IOException")
    done = store("PUT", "/case14b/a", "RENAME", destination="/case14b/empty", **over)
    assert done.status_code == 200
    assert store("GET", "/case14b/empty/f", "GETFILESTATUS").ok
    under = store("PUT", "/case14b/full", "RENAME", destination="/case14b/no/x", **over)
    why(under, 404, "FileNotFoundException")
    within = store("PUT", "/case14b/full", "RENAME", destination="/case14b/full/x", **over)
    why(within, 403, "IOException")


def test_case_15_create_makes_no_folder_that_is_not_wanted(store):
    refused = store("PUT", "/case15/f", "CREATE", b"x", createparent="false")
    why(refused, 404, "FileNotFoundException")
    assert store("GET", "/case15", "GETFILESTATUS").status_code == 404
    assert store("PUT", "/case15/f", "CREATE", b"old").status_code == 201
    over = store("PUT", "/case15/f", "CREATE", b"new", createflag="create,overwrite")
    assert over.status_code == 201
    assert store("GET", "/case15/f", "OPEN", b"").content == b"new"
    silly = store("PUT", "/case15/g", "CREATE", b"x", createparent="maybe")
    assert "createparent" in why(silly, 400, "IllegalArgumentException")


def test_case_16_who_acts_in_anothers_place_makes_what_is_the_others(store):
    assert store("PUT", "/case16", "CREATE", b"x", user_name="hue", doas="bob").status_code == 201
    assert store("GET", "/case16", "GETFILESTATUS").json()["FileStatus"]["owner"] == "bob"
    home = store("GET", "/", "GETHOMEDIRECTORY", user_name="hue", doas="bob")
    assert home.json() == {"Path": "/user/bob"}


def test_case_40_a_line_feed_in_a_name_is_refused_as_other_control_characters(hadoop):
    for letter in ("%0A", "%0D", "%01", "%7F"):
        url = f"{hadoop.url}/webhdfs/v1/a{letter}b?op=CREATE"
        refused = requests.put(url, allow_redirects=False)
        assert "control character" in why(refused, 400, "IllegalArgumentException")


def test_a_name_in_utf_8_as_hadoops_java_client_sends_it(hadoop):
    name = "/java/a%20b%20ü%20東"
    connection = http.client.HTTPConnection(urlsplit(hadoop.url).netloc)
    head = f"PUT /webhdfs/v1{name}?op=MKDIRS HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    connection.connect()
    connection.sock.sendall(head.encode())
    assert b'{"boolean":true}' in connection.sock.recv(65536)
    connection.close()
    assert "a b ü 東" in hadoop.ok("hadoop", "fs", "-ls", "/java")[0].decode()


# YARN --------------------------------------------------------------------------------------------
def submitted(hadoop, **fields):
    apps = f"{hadoop.url}/ws/v1/cluster/apps"
    new = requests.post(f"{apps}/new-application").json()["application-id"]
    work = {"user": "ann", "input": ["/rest/in"], "output": f"/rest/{new}", "mapper": "cat"}
    answer = requests.post(apps, json={"application-id": new, "railyard": work} | fields)
    assert answer.status_code == 202, answer.text
    return new


def has_ended(cluster, app):
    wait_for(
        lambda: cluster(f"cluster/apps/{app}/state").json()["state"] == "FINISHED", why="its end"
    )


def conf(cluster, app):
    path = f"history/mapreduce/jobs/{app.replace('application', 'job')}/conf"
    rows = cluster(path).json()["conf"]["property"]
    return {row["name"]: row["value"] for row in rows}


def test_case_17_tags_of_a_submission_over_http(hadoop, cluster, job):
    app = submitted(hadoop, **{"application-tags": {"tag": ["run-18"]}})
    has_ended(cluster, app)
    assert conf(cluster, app)["mapreduce.job.tags"] == "run-18"
    [found] = cluster("cluster/apps", applicationTags="run-18").json()["apps"]["app"]
    assert (found["id"], found["applicationTags"]) == (app, "run-18")
    assert cluster("cluster/apps", applicationTags="nosuch").json() == {"apps": None}


def test_case_35_an_empty_filter_is_none(cluster, job):
    empty = {"limit": "", "startedTimeBegin": "", "finishedTimeEnd": ""}
    for path in ("cluster/apps", "history/mapreduce/jobs"):
        assert str(cluster(path, **empty).json()) == str(cluster(path).json())
        assert cluster(path, **empty).status_code == 200


def test_case_36_a_time_that_ends_before_it_begins(cluster, job):
    for path in ("cluster/apps", "history/mapreduce/jobs"):
        for time in ("startedTime", "finishedTime"):
            swapped = cluster(path, **{f"{time}Begin": 2000, f"{time}End": 1000})
            assert f"{time}End" in why(swapped, 400, "BadRequestException")


def test_case_37_a_job_is_ended_by_xml(hadoop, cluster, job):
    app = submitted(hadoop)
    url = f"{hadoop.url}/ws/v1/cluster/apps/{app}/state"
    body = "<appstate><state>KILLED</state></appstate>"
    done = requests.put(url, data=body, headers={"Content-Type": "application/xml"})
    assert done.status_code in (200, 202)
    assert done.json()["state"] in ("ACCEPTED", "RUNNING", "KILLED", "FINISHED")
    silly = requests.put(url, data="<appstate", headers={"Content-Type": "application/xml"})
    assert "need XML" in why(silly, 400, "BadRequestException")


def test_case_38_a_jobs_own_setting_is_in_its_conf(cluster, job):
    assert conf(cluster, job)["my.key"] == "val"


def test_case_39_all_queues_are_below_root(cluster, job):
    for queue in ("default", "root.default"):
        found = cluster("cluster/apps", queue=queue).json()["apps"]["app"]
        assert job in [app["id"] for app in found]
        assert {app["queue"] for app in found} == {"default"}


def test_a_filter_of_nobody_is_named(cluster):
    assert 'did you mean "states"?' in why(
        cluster("cluster/apps", statess="RUNNING"), 400, "BadRequestException"
    )


def test_an_attempt_of_an_ended_job_has_its_nodes_address(cluster, job):
    tasks = f"history/mapreduce/jobs/{job.replace('application', 'job')}/tasks"
    first = cluster(tasks).json()["tasks"]["task"][0]["id"]
    [attempt] = cluster(f"{tasks}/{first}/attempts").json()["taskAttempts"]["taskAttempt"]
    host = attempt["nodeHttpAddress"]
    info = requests.get(f"http://{host}/ws/v1/node/info").json()["nodeInfo"]
    assert info["nodeHostName"] == attempt["railyard"]["node"]


# Commands ----------------------------------------------------------------------------------------
def test_yarn_lists_the_states_that_are_asked_for(hadoop, job):
    assert job in hadoop.ok("yarn", "application", "-list", "-appStates", "FINISHED")[0].decode()
    assert job not in hadoop.ok("yarn", "application", "-list")[0].decode()
    status, _, errors = hadoop.run("yarn", "application", "-list", "-appStates", "DONE")
    assert status == 1
    assert "DONE" in errors
    status, _, errors = hadoop.run("yarn", "application", "-list", "-appState", "FINISHED")
    assert status == 1
    assert 'did you mean "-appStates"?' in errors
