"""What breaks real clients of WebHDFS if it is otherwise, and what an HDFS refuses."""

from __future__ import annotations

import base64
import http.client
import socket
from urllib.parse import urlsplit

import fsspec
import hdfs
import pytest
import requests

from railyard.gateway.http.answers import RemoteError
from railyard.gateway.http.guard import Tokens
from railyard.gateway.webhdfs.operations import REFUSED

DAY_MS = 86_400_000


def error(response):
    told = response.json()["RemoteException"]
    assert set(told) == {"exception", "javaClassName", "message"}
    return response.status_code, told["exception"]


def create(web, path, data=b"x", **parameters):
    first = requests.put(web.path(path, op="CREATE", **parameters), allow_redirects=False)
    assert (first.status_code, first.content) == (307, b"")
    assert requests.put(first.headers["Location"], data=data).status_code == 201
    return first.headers["Location"]


def owner(web, path):
    return requests.get(web.path(path, op="GETFILESTATUS")).json()["FileStatus"]["owner"]


def test_what_clients_send_besides(web):
    for parameters in (
        {"OVERWRITE": "True", "user.name": "ann"},  # Python's words, names in any case
        {"overwrite": "TRUE", "tempdir": "/tmp"},  # fsspec's
        {"overwrite": "true", "namenoderpcaddress": "evil.example:1"},
    ):
        create(web, "/besides", **parameters)
    assert owner(web, "/besides") == "dr.who"
    where = create(web, "/twice", user_name="ann")
    # HdfsCLI's session says who it is once more
    again = requests.put(f"{where}&overwrite=true&user.name=ann", data=b"y")
    assert again.status_code == 201
    assert owner(web, "/twice") == "ann"


def test_an_answer_is_never_compressed(web):
    create(web, "/plain", b"a" * 10_000)
    headers = {"Accept-Encoding": "gzip, deflate, br"}
    for parameters in ({"op": "OPEN"}, {"op": "LISTSTATUS"}):
        got = requests.get(web.path("/plain", **parameters), headers=headers)
        assert "Content-Encoding" not in got.headers


def test_nothing_there_is_said_in_words_that_clients_look_for(web):
    for op in ("LISTSTATUS", "GETFILESTATUS", "OPEN", "GETFILECHECKSUM"):
        missing = requests.get(web.path("/nowhere/x", op=op))
        assert error(missing) == (404, "FileNotFoundException")
        assert "does not exist" in missing.json()["RemoteException"]["message"]


def test_statuses_are_those_for_which_fsspec_reads_the_exception(web):
    create(web, "/statuses/f")
    for verb, path, parameters in (
        ("GET", "/none", {"op": "OPEN"}),
        ("PUT", "/statuses/f", {"op": "MKDIRS"}),
        ("DELETE", "/statuses", {"op": "DELETE"}),
        ("GET", "/", {"op": "NOSUCH"}),
        ("GET", "/", {}),
        ("PUT", "/", {"op": "SETXATTR"}),
    ):
        answered = requests.request(verb, web.path(path, **parameters))
        assert error(answered)[0] in (400, 403, 404)


def test_names_that_no_client_could_read_are_not_made(web):
    for verb, path, parameters in (
        ("PUT", "/a:b", {"op": "CREATE"}),
        ("PUT", "/a%3Ab/c", {"op": "MKDIRS"}),
        ("PUT", "/besides", {"op": "RENAME", "destination": "/x:y"}),
        ("PUT", "/a/%2e%2e/b", {"op": "MKDIRS"}),
    ):
        refused = requests.request(verb, web.path(path, **parameters), allow_redirects=False)
        assert error(refused) == (400, "IllegalArgumentException"), path
    requests.put(web.path("/up/in", op="MKDIRS"))
    moved = requests.put(web.path("/up/in", op="RENAME", destination="/../../up/./here"))
    assert moved.json() == {"boolean": True}
    listed = requests.get(web.path("/up", op="LISTSTATUS")).json()["FileStatuses"]["FileStatus"]
    assert [each["pathSuffix"] for each in listed] == ["here"]


def test_the_second_step_is_trusted_as_little_as_the_first(web):
    where = urlsplit(create(web, "/second"))
    for path in ("/webhdfs/v1/../../etc/passwd", "/webhdfs/v1/second/../x"):
        connection = http.client.HTTPConnection(where.netloc)
        connection.request("PUT", f"{path}?{where.query}", b"data")
        assert connection.getresponse().status in (400, 404)
        connection.close()


def test_who_asks_before_sending_is_told_at_once_what_is_wrong(web):
    where = urlsplit(web.url)
    with socket.create_connection((where.hostname, where.port)) as connection:
        head = "PUT /webhdfs/v1/%ff?op=CREATE&data=true HTTP/1.1\r\nHost: localhost\r\n"
        connection.sendall(f"{head}Content-Length: 5\r\nExpect: 100-continue\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_what_is_false_and_what_is_wrong_as_an_hdfs_has_it(web):
    create(web, "/as/f", b"12345")
    for verb, path, parameters, right in (
        ("PUT", "/as/none", {"op": "SETREPLICATION", "replication": 1}, False),
        ("PUT", "/as", {"op": "SETREPLICATION", "replication": 1}, False),
        ("PUT", "/as/none", {"op": "SETREPLICATION", "replication": 0}, "IllegalArgument"),
        ("PUT", "/as/f", {"op": "SETREPLICATION", "replication": 32768}, "IllegalArgument"),
        ("GET", "/as/f", {"op": "CHECKACCESS", "fsaction": "zz"}, "IllegalArgument"),
        ("DELETE", "/", {"op": "DELETE"}, "PathIsNotEmptyDirectory"),
        ("DELETE", "/", {"op": "DELETE", "recursive": "true"}, False),
        ("POST", "/as/f", {"op": "TRUNCATE", "newlength": 6}, "HadoopIllegalArgument"),
    ):
        told = requests.request(verb, web.path(path, **parameters)).json()
        if right is False:
            assert told == {"boolean": False}, (path, parameters)
        else:
            assert told["RemoteException"]["exception"] == f"{right}Exception", (path, parameters)
    for parameters in (
        {"op": "SETPERMISSION", "permission": "01777"},
        {"op": "SETTIMES", "modificationtime": 1},
    ):
        done = requests.put(web.path("/as/f", **parameters))
        assert (done.status_code, done.content) == (200, b"")
        assert done.headers["Content-Type"] == "application/octet-stream"


def test_what_an_hdfs_refuses_that_has_not_got_it(web):
    create(web, "/refused")
    for verb, operation in REFUSED:
        refused = requests.request(verb, web.path("/refused", op=operation))
        assert error(refused)[1] in (
            "AclException",
            "IOException",
            "SnapshotException",
            "UnsupportedOperationException",
        )
    snapshot = requests.put(web.path("/refused", op="CREATESNAPSHOT")).json()["RemoteException"]
    assert snapshot["message"] == "Directory is not a snapshottable directory: /refused"
    acl = requests.get(web.path("/refused", op="GETACLSTATUS")).json()["AclStatus"]
    assert (acl["owner"], acl["permission"], acl["entries"]) == ("dr.who", "644", [])


def test_how_full_the_store_is(web):
    before = requests.get(web.path("/", op="GETSTATUS")).json()["FsStatus"]
    create(web, "/full/file", b"x" * 1000)
    told = requests.get(web.path("/", op="GETSTATUS")).json()["FsStatus"]
    assert told["used"] - before["used"] == 2000  # two replicas
    assert told["capacity"] == told["used"] + told["remaining"]
    quota = requests.get(web.path("/full", op="GETQUOTAUSAGE")).json()["QuotaUsage"]
    assert (quota["fileAndDirectoryCount"], quota["spaceConsumed"], quota["quota"]) == (2, 2000, -1)


# Delegation tokens -------------------------------------------------------------------------------
def test_a_delegation_token_says_who_asks(web):
    asked = {"op": "GETDELEGATIONTOKEN", "user_name": "ann", "renewer": "rita"}
    token = requests.get(web.path("/", **asked)).json()["Token"]["urlString"]
    create(web, "/token", delegation=token, user_name="bob")
    assert owner(web, "/token") == "ann"
    hdfs.TokenClient(web.url, token).write("/token-hdfscli", data=b"x")
    assert owner(web, "/token-hdfscli") == "ann"
    where = urlsplit(web.url)
    store = fsspec.filesystem("webhdfs", host=where.hostname, port=where.port, token=token)
    store.pipe_file("/token-fsspec", b"x")
    assert owner(web, "/token-fsspec") == "ann"
    renew = {"op": "RENEWDELEGATIONTOKEN", "token": token}
    until_ms = requests.put(web.path("/", user_name="rita", **renew)).json()["long"]
    assert until_ms > 1.6e12
    other = requests.put(web.path("/", user_name="bob", **renew))
    assert error(other) == (403, "AccessControlException")
    cancel = {"op": "CANCELDELEGATIONTOKEN", "token": token}
    for user, status in (("bob", 403), ("ann", 200), ("ann", 403)):
        done = requests.put(web.path("/", user_name=user, **cancel))
        assert done.status_code == status
    late = requests.get(web.path("/", op="LISTSTATUS", delegation=token))
    assert error(late) == (403, "InvalidToken")
    told = late.json()["RemoteException"]["javaClassName"]
    assert told == "org.apache.hadoop.security.token.SecretManager$InvalidToken"


def test_a_token_has_hadoops_layout():
    text = Tokens("127.0.0.1:8088").issue("ann", "rita", 1_795_454_475_442)
    data = base64.urlsafe_b64decode(text + "==")
    size = data[0]
    identifier, rest = data[1 : 1 + size], data[1 + size :]
    assert identifier[:11] == b"\0\3ann\4rita\0"
    # of 1,795,454,475,442 Hadoop's WritableUtils writes -118 and its six bytes
    assert identifier[11:18] == bytes([256 - 118]) + (1_795_454_475_442).to_bytes(6, "big")
    assert identifier[25:] == b"\1\1"
    assert rest[0] == 20
    assert rest[21:] == b"\x12WEBHDFS delegation\x0e127.0.0.1:8088"


@pytest.mark.parametrize("owner", ["a", "an", "ann", "anna", "annab"])
def test_a_token_of_any_length_can_be_read(owner):
    tokens = Tokens("here")
    assert tokens.read(tokens.issue(owner, owner, 0), 1).owner == owner


def test_tokens_end_and_those_of_others_do_not_hold():
    tokens = Tokens("here")
    text = tokens.issue("ann" * 20, "rita" * 20, 0)
    assert tokens.read(text, 7 * DAY_MS - 1).owner == "ann" * 20
    assert tokens.renew(text, "rita" * 20, 0) == DAY_MS
    assert tokens.renew(text, "rita" * 20, 6 * DAY_MS + 5) == 7 * DAY_MS
    for wrong, at_ms, why in (
        (text, 7 * DAY_MS, "expired"),
        (Tokens("here").issue("ann", "ann", 0), 0, "not of this gateway"),
        (text[:20], 0, "cannot be read"),
        ("ü", 0, "cannot be read"),
        ("", 0, "cannot be read"),
    ):
        with pytest.raises(RemoteError, match=why):
            tokens.read(wrong, at_ms)
