"""A gateway that needs a token, and what its death, its stops and lost clients leave behind."""

from __future__ import annotations

import configparser
import dataclasses
import http.client
import os
import random
import signal
import socket
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import hdfs
import msgspec
import pytest
import requests
from playwright.sync_api import expect

import railyard.gateway.process
from railyard.gateway.address import gateway_lines, known
from railyard.gateway.http.connections import is_of_this_user
from railyard.gateway.shell.generic import Generic
from tests.chromium import needs_chromium, new_page
from tests.dfs.conftest import Dfs, small_topology

DATA = random.Random(3).randbytes(350_000)


def everywhere(daemon):
    """A gateway that other machines could reach, and so needs a token."""
    config = msgspec.structs.replace(daemon.config, http_host="0.0.0.0")
    railyard.gateway.process.main(dataclasses.replace(daemon, config=config))


class Gateway:
    def __init__(self, dfs):
        self.dfs = dfs
        self.url, self.token = known(dfs.folder)
        self.headers = {"Authorization": f"Bearer {self.token}"}

    def ask(self, verb, path, op, body=None, **parameters):
        parameters = {"op": op} | parameters
        where = f"{self.url}/webhdfs/v1{path}"
        return requests.request(verb, where, params=parameters, data=body, headers=self.headers)

    def content(self, path):
        return self.ask("GET", path, "OPEN").content

    def again(self):
        self.dfs.start("gateway")
        assert known(self.dfs.folder) == (self.url, self.token)


@pytest.fixture(scope="module")
def gateway():
    with (
        tempfile.TemporaryDirectory(prefix="ry-") as parent,
        Dfs(Path(parent), small_topology(), "fast", gateway=everywhere) as dfs,
    ):
        yield Gateway(dfs)


class Upload:
    """A body of which the first half is sent, and the rest when it may."""

    def __init__(self):
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def __iter__(self):
        yield DATA[:200_000]
        yield DATA[200_000:200_001]  # asked for once the first piece is sent
        self.begun.set()
        self.goes_on.wait(60)
        yield DATA[200_001:]


# Tokens ------------------------------------------------------------------------------------------
def test_without_the_token_nothing_is_answered(gateway):
    url = f"{gateway.url}/webhdfs/v1/?op=LISTSTATUS"
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {gateway.token}"}):
        for each in (url, f"{gateway.url}/ws/v1/cluster", f"{gateway.url}/nowhere"):
            refused = requests.get(each, headers=headers)
            assert refused.status_code == 401
            assert refused.json()["RemoteException"]["exception"] == "SecurityException"
    wrong = requests.get(url, params={"delegation": "AAAA"})
    assert wrong.json()["RemoteException"]["exception"] == "InvalidToken"
    assert gateway.ask("GET", "/", "LISTSTATUS").status_code == 200
    other_site = gateway.headers | {"Origin": "http://evil.example"}
    made = requests.put(f"{gateway.url}/webhdfs/v1/x?op=MKDIRS", headers=other_site)
    assert made.status_code == 403


def test_the_page_has_nothing_of_the_cluster_in_it(gateway):
    page = requests.get(gateway.url)
    assert (page.status_code, page.headers["Referrer-Policy"]) == (200, "no-referrer")
    assert gateway.token not in page.text
    for path in ("/page/feed", "/page/log?attempt=j1.m0.0", "/cluster/", "//"):
        assert requests.get(gateway.url + path).status_code == 401
    assert requests.put(gateway.url).status_code == 401


@needs_chromium
def test_the_page_takes_the_token_out_of_its_address(gateway, tmp_path):
    assert gateway.ask("PUT", "/on-the-page", "CREATE", b"x", data="true").status_code == 201
    [link] = [line.split()[-1] for line in gateway_lines(gateway.dfs.folder) if "#token=" in line]
    with new_page(tmp_path) as page:
        page.goto(link)
        for _ in range(2):
            expect(page.locator("#state")).to_have_text("live")
            expect(page.locator("#blocks")).to_contain_text("on-the-page")
            assert page.evaluate("location.hash") == ""
            page.reload()


def test_clients_find_the_token_in_their_files(gateway, monkeypatch):
    folder = gateway.dfs.folder.client_files
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in folder.iterdir())
    assert any(gateway.token in line for line in gateway_lines(gateway.dfs.folder))
    site = configparser.ConfigParser()
    site.read(folder / "hdfscli.cfg")
    alias = site["railyard.alias"]
    assert alias["client"] == "TokenClient"
    client = hdfs.TokenClient(alias["url"], alias["token"])
    client.write("/token/file", data=b"x")
    with client.read("/token/file") as reader:
        assert reader.read() == b"x"
    client._session.close()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
    with closing(Generic().connect("ann")) as command:
        assert command.ask("GET", "/token/file", "GETFILESTATUS")["FileStatus"]["length"] == 1


def test_connections_of_other_users_are_refused(monkeypatch):
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
    ):
        accepted, _ = listening.accept()
        with accepted:
            assert is_of_this_user(accepted)
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
            assert is_of_this_user(accepted) == (os.getuid() == 0)  # root is let in
            client.close()
            assert not is_of_this_user(accepted)  # whose it was is not known any more


# Deaths and stops --------------------------------------------------------------------------------
def test_a_gateway_that_dies_in_an_upload_leaves_nothing_and_comes_back(gateway):
    gateway.ask("PUT", "/kept", "CREATE", b"kept", data="true")
    first = [Upload(), Upload()]
    with ThreadPoolExecutor(2) as pool:
        sent = [
            pool.submit(gateway.ask, "PUT", "/cut", "CREATE", first[0], data="true"),
            pool.submit(gateway.ask, "POST", "/kept", "APPEND", first[1], data="true"),
        ]
        for upload in first:
            assert upload.begun.wait(30)
        gateway.dfs.kill("gateway")
        for upload in first:
            upload.goes_on.set()
        for each in sent:
            with pytest.raises(requests.ConnectionError):
                each.result(60)
    gateway.again()
    assert gateway.ask("GET", "/cut", "GETFILESTATUS").status_code == 404
    assert gateway.content("/kept") == b"kept"
    assert gateway.ask("PUT", "/cut", "CREATE", DATA, data="true").status_code == 201
    assert gateway.content("/cut") == DATA


def test_a_gateway_that_is_stopped_goes_on_where_it_was(gateway):
    upload = Upload()
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(gateway.ask, "PUT", "/stopped", "CREATE", upload, data="true")
        assert upload.begun.wait(30)
        pid = gateway.dfs.pids["gateway"]
        os.kill(pid, signal.SIGSTOP)
        upload.goes_on.set()
        client = gateway.dfs.client()
        assert not client.exists("/stopped")
        client.write("/beside", [b"the block store goes on"])
        os.kill(pid, signal.SIGCONT)
        assert sent.result(60).status_code == 201
    assert gateway.content("/stopped") == DATA


def test_clients_that_go_away_keep_no_place(gateway):
    assert gateway.ask("PUT", "/large", "CREATE", DATA * 20, data="true").status_code == 201
    url = urlsplit(gateway.url)
    for begun in range(70):  # more than are served at once
        connection = http.client.HTTPConnection(url.netloc)
        headers = {"Authorization": f"Bearer {gateway.token}"}
        if begun % 2:
            target = f"/webhdfs/v1/gone-{begun}?op=CREATE&data=true"
            connection.putrequest("PUT", target)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.putheader("Content-Length", "1000000")
            connection.endheaders(DATA)
        else:
            target = "/webhdfs/v1/large?op=OPEN&data=true"
            connection.request("GET", target, headers=headers)
            connection.getresponse().read(1000)
        connection.close()
    assert gateway.content("/large") == DATA * 20
    listed = gateway.ask("GET", "/", "LISTSTATUS").json()["FileStatuses"]["FileStatus"]
    assert not [each for each in listed if each["pathSuffix"].startswith("gone")]


def test_an_answer_that_cannot_be_finished_is_cut_off(gateway):
    """An error's words would count as bytes of the file."""
    assert gateway.ask("PUT", "/lost", "CREATE", DATA, data="true").status_code == 201
    gone = gateway.dfs.client().locations("/lost")[2]
    for node in gone.nodes:
        gateway.dfs.block_file(node, gone.block).unlink()
    url = f"{gateway.url}/webhdfs/v1/lost?op=OPEN&data=true"
    got = bytearray()
    with requests.get(url, stream=True, headers=gateway.headers) as answer:
        assert answer.status_code == 200
        pieces = answer.iter_content(10_000)
        with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
            got.extend(piece for each in pieces for piece in each)
    assert got == DATA[: len(got)]
