"""Kind III: an address says which cluster is meant, wherever one may be given."""

from __future__ import annotations

import socket

import fsspec
import pytest
import requests

from railyard.cluster.errors import UsageError
from tests.streamed import failing, stored, streamed

NOWHERE = "hdfs://nowhere.invalid:8020"


def own(hadoop):
    """Host and port of the cluster's gateway."""
    return hadoop.url.removeprefix("http://")


@pytest.fixture(scope="session")
def kept(hadoop):
    """A file that every test must leave where it is."""
    stored(hadoop, b"kept\n", "/addressed/t1")
    yield "/addressed/t1"
    assert hadoop.get("/addressed/t1") == b"kept\n"
    listed, _ = hadoop.ok("hadoop", "fs", "-ls", "-C", "/addressed")
    assert listed == b"/addressed/t1\n"


@pytest.mark.parametrize(
    "words",
    [
        ["-ls", f"{NOWHERE}/addressed"],
        ["-rm", f"{NOWHERE}/addressed/t1"],
        ["-rm", "-f", "-r", f"{NOWHERE}/addressed"],
        ["-rm", "//nowhere.invalid:8020/addressed/t1"],
        ["-rm", "webhdfs://127.0.0.1:1/addressed/t1"],
        ["-rm", "s3a://bucket/addressed/t1"],
        ["-rm", "file:///addressed/t1"],
        ["-cat", f"{NOWHERE}/addressed/t1"],
        ["-cat", f"{NOWHERE}/addressed/t*"],
        ["-mv", "/addressed/t1", f"{NOWHERE}/addressed/t2"],
        ["-mv", f"{NOWHERE}/addressed/t1", "/addressed/t2"],
        ["-cp", f"{NOWHERE}/addressed/t1", "/addressed/t2"],
        ["-cp", "/addressed/t1", f"{NOWHERE}/addressed/t2"],
        ["-put", "/dev/null", f"{NOWHERE}/addressed/t2"],
        ["-appendToFile", "/dev/null", f"{NOWHERE}/addressed/t2"],
        ["-get", f"{NOWHERE}/addressed/t1", "/tmp/never-made"],
        ["-mkdir", f"{NOWHERE}/addressed/t2"],
        ["-touchz", f"{NOWHERE}/addressed/t2"],
        ["-test", "-e", f"{NOWHERE}/addressed/t1"],
        ["-truncate", "0", f"{NOWHERE}/addressed/t1"],
        ["-chmod", "777", f"{NOWHERE}/addressed/t1"],
        ["-concat", f"{NOWHERE}/addressed/t1", "/addressed/t1", "/addressed/t1"],
        ["-getfattr", "-d", f"{NOWHERE}/addressed/t1"],
    ],
    ids=" ".join,
)
def test_case_18_a_path_of_another_cluster_is_none_of_this_one(hadoop, kept, words):
    status, out, errors = hadoop.run("hadoop", "fs", *words)
    assert (status, out) == (1, b"")
    assert len(errors.splitlines()) == 1
    assert words[0][1:] in errors
    if "nowhere" in " ".join(words):
        assert "nowhere.invalid:8020" in errors
        assert own(hadoop) in errors


@pytest.mark.parametrize(
    "words",
    [
        ["fs", "-fs", "webhdfs://127.0.0.1:1", "-ls", "/addressed"],
        ["fs", "-fs", NOWHERE, "-rm", "/addressed/t1"],
        ["fs", "-D", f"fs.defaultFS={NOWHERE}", "-rm", "/addressed/t1"],
        ["fs", f"-Dfs.default.name={NOWHERE}", "-rm", "/addressed/t1"],
        ["fs", "-conf", "{conf}", "-rm", "/addressed/t1"],
        ["--config", "{folder}", "fs", "-rm", "/addressed/t1"],
        ["fs", "-jt", "nowhere.invalid:8032", "-rm", "/addressed/t1"],
        ["application", "-jt", "nowhere.invalid:8032", "-list"],
        ["job", "-fs", NOWHERE, "-list"],
        ["dfsadmin", "-fs", NOWHERE, "-report"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_case_18_options_say_which_cluster_is_asked(hadoop, kept, words, tmp_path):
    site = f"<configuration><property><name>fs.defaultFS</name><value>{NOWHERE}</value></property>"
    (tmp_path / "core-site.xml").write_text(f"{site}</configuration>")
    words = [word.format(conf=tmp_path / "core-site.xml", folder=tmp_path) for word in words]
    status, out, errors = hadoop.run("hadoop", *words)
    assert (status, out) == (1, b"")
    assert len(errors.splitlines()) == 1
    assert "127.0.0.1:1" in errors or "nowhere.invalid:80" in errors


@pytest.mark.parametrize("variable", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_case_18_a_folder_of_another_cluster_is_not_passed_over(hadoop, tmp_path, variable):
    site = f"<configuration><property><name>fs.defaultFS</name><value>{NOWHERE}</value></property>"
    (tmp_path / "core-site.xml").write_text(f"{site}</configuration>")
    home = {"RAILYARD_HOME": hadoop.railyard.environment["RAILYARD_HOME"]}
    environment = {n: v for n, v in hadoop.environment.items() if not n.endswith("CONF_DIR")} | home
    before, hadoop.environment = hadoop.environment, environment | {variable: str(tmp_path)}
    try:
        status, _, errors = hadoop.run("hadoop", "fs", "-ls", "/addressed")
    finally:
        hadoop.environment = before
    assert status == 1
    assert "nowhere.invalid:8020" in errors


def test_case_18_every_spelling_of_our_own_address_goes_on(hadoop, kept):
    port = own(hadoop).rpartition(":")[2]
    hosts = ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", socket.gethostname()]
    named = [f"{scheme}://{host}:{port}" for scheme in ("hdfs", "webhdfs") for host in hosts]
    for start in (*named, "hdfs://localhost", "hdfs://127.0.0.1", "hdfs://", "hdfs:", ""):
        out, _ = hadoop.ok("hadoop", "fs", "-cat", f"{start}{kept}")
        assert out == b"kept\n", start
    for option in (f"hdfs://localhost:{port}", f"webhdfs://{own(hadoop)}", f"127.0.0.1:{port}"):
        assert hadoop.ok("hadoop", "fs", "-fs", option, "-cat", kept)[0] == b"kept\n"
    hadoop.ok("yarn", "application", "-jt", own(hadoop), "-list")
    hadoop.ok("hadoop", "--config", hadoop.environment["HADOOP_CONF_DIR"], "fs", "-ls", kept)


def test_case_18_jobs_read_and_write_this_cluster_or_none(hadoop, kept, tmp_path):
    (tmp_path / "m.sh").write_text("#!/bin/sh\ncat\n")
    here = f"webhdfs://{own(hadoop)}"
    out = streamed(hadoop, b"x\n", "-mapper", "cat", "-input", f"{here}{kept}")
    assert sorted(out.splitlines()) == [b"kept", b"x"]
    for words in (
        ["-input", f"{NOWHERE}{kept}"],
        ["-output", f"{NOWHERE}/elsewhere"],
        ["-files", f"{NOWHERE}/m.sh"],
        ["-archives", f"{NOWHERE}/m.zip"],
        ["-cacheFile", f"{NOWHERE}/m.sh#m"],
        ["-fs", NOWHERE],
        ["-D", f"fs.defaultFS={NOWHERE}"],
        ["-jt", "nowhere.invalid:8032"],
        ["-jt", "local"],
    ):
        errors = failing(hadoop, b"x\n", "-mapper", "cat", *words)
        assert "nowhere.invalid:80" in errors or "local" in errors, words
    assert hadoop.run("hadoop", "fs", "-test", "-e", "/elsewhere")[0] == 1


def test_case_18_local_files_may_be_named_by_uri(hadoop, tmp_path):
    (tmp_path / "x").write_bytes(b"local\n")
    hadoop.ok("hadoop", "fs", "-put", f"file://{tmp_path}/x", "/by-uri")
    hadoop.ok("hadoop", "fs", "-get", "/by-uri", f"file:{tmp_path}/y")
    assert (tmp_path / "y").read_bytes() == b"local\n"


def test_case_18_jobs_as_json_are_of_this_cluster_or_refused(hadoop, kept):
    job = {"input": [kept], "output": "/never-written", "mapper": "cat", "reducer": "NONE"}
    for wrong in (
        {"input": [f"{NOWHERE}{kept}"]},
        {"input": [f"{{{kept},{NOWHERE}{kept}}}"]},
        {"output": f"{NOWHERE}/never-written"},
        {"output": "s3a://bucket/never-written"},
        {"settings": {"fs.defaultFS": NOWHERE}},
    ):
        answer = requests.post(f"{hadoop.url}/ws/v1/railyard/streaming", json=job | wrong)
        assert answer.status_code == 400, wrong
        message = answer.json()["RemoteException"]["message"]
        assert "is another cluster: this one is webhdfs://" in message or "s3a" in message
    assert hadoop.run("hadoop", "fs", "-test", "-e", "/never-written")[0] == 1


def test_case_18_urls_of_fsspec_name_their_cluster(hadoop, kept, monkeypatch):
    monkeypatch.setenv("RAILYARD_HOME", str(hadoop.railyard.home))
    store, path = fsspec.url_to_fs(f"railyard://{hadoop.folder.name}{kept}")
    assert path == kept
    for url in (kept, f"railyard://{kept}", f"railyard://{hadoop.folder.name}{kept}"):
        assert store.cat_file(url) == b"kept\n"
    for url in (f"railyard://c-another{kept}", f"{NOWHERE}{kept}", f"s3://bucket{kept}"):
        for act in (store.cat_file, store.rm, store.ls, store.info):
            with pytest.raises(UsageError, match="is another store"):
                act(url)
        with pytest.raises(UsageError, match="is another store"):
            store.mv(kept, url)
    store.mv(f"railyard://{kept}", f"{kept}.moved")
    store.mv(f"{kept}.moved", f"railyard://{hadoop.folder.name}{kept}")
    with pytest.raises(UsageError, match="no such cluster"):
        fsspec.url_to_fs(f"railyard://c-another{kept}")
