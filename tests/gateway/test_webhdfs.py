"""Checksums beside those that an HDFS 2.7.3 answered for the same bytes and block sizes."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import crc32c
import fsspec
import hdfs
import pytest
import requests

from railyard.gateway.webhdfs.operations import file_checksum

CHECKED_DATA = random.Random(5).randbytes(1_000_000)


@pytest.mark.parametrize(
    ("block_bytes", "length", "algorithm", "digest"),
    [
        (102400, 0, "MD5-of-0MD5-of-0CRC32", "70bc8f4b72a86921468bf8e8441dce51"),
        (102400, 1, "MD5-of-0MD5-of-512CRC32C", "d4435a3b365e7fb67c0ff9ea65c174de"),
        (102400, 513, "MD5-of-0MD5-of-512CRC32C", "e3156dacd346c789d8bbfb314ec5f39a"),
        (102400, 102400, "MD5-of-0MD5-of-512CRC32C", "7204593d7a44032064cf4c321b526ef0"),
        (102400, 204800, "MD5-of-200MD5-of-512CRC32C", "b332fecb6698ce3fc280fccb30fbc9a0"),
        (102400, 500_000, "MD5-of-200MD5-of-512CRC32C", "333bd28746ec10cb8a4d689d22194f96"),
        (10240, 90_001, "MD5-of-20MD5-of-512CRC32C", "21fcbf8b9d6f3885882ec963e2d4b454"),
        (10240, 337_921, "MD5-of-20MD5-of-512CRC32C", "6a379702646cd966d4f61ce28f5f4918"),
        (10240, 1_000_000, "MD5-of-20MD5-of-512CRC32C", "146b879d05a023711da1f800a0f7e3bd"),
    ],
)
def test_the_same_as_an_hdfs(block_bytes, length, algorithm, digest):
    data = memoryview(CHECKED_DATA)[:length]
    pieces = (data[at : at + 7001] for at in range(0, length, 7001))
    told = file_checksum(pieces, block_bytes)["FileChecksum"]
    assert (told["algorithm"], told["bytes"][24:]) == (algorithm, digest + "00000000")


# WebHDFS as its clients use it, with a real block store behind it.


DATA = random.Random(2).randbytes(350_000)


def error(response):
    assert response.headers["Content-Type"].startswith("application/json")
    told = response.json()["RemoteException"]
    assert told["javaClassName"].endswith(f".{told['exception']}")
    assert "Traceback" not in response.text
    return response.status_code, told["exception"]


def create(web, path, data=b"", **parameters):
    first = requests.put(web.path(path, op="CREATE", **parameters), allow_redirects=False)
    assert (first.status_code, first.content) == (307, b"")
    return requests.put(first.headers["Location"], data=data)


def status(web, path):
    return requests.get(web.path(path, op="GETFILESTATUS")).json()["FileStatus"]


# Files -------------------------------------------------------------------------------------------
def test_a_file_is_created_read_in_ranges_and_removed(web):
    made = create(web, "/r/file", DATA, user_name="ann", permission="600", overwrite="False")
    assert made.status_code == 201
    assert made.headers["Location"].endswith("/r/file")
    for parameters, right in (
        ({}, DATA),
        ({"offset": 99_990, "length": 20}, DATA[99_990:100_010]),
        ({"offset": 349_999, "length": 1000}, DATA[-1:]),
        ({"offset": 350_000}, b""),
        ({"length": 0}, b""),
    ):
        got = requests.get(web.path("/r/file", op="open", **parameters))
        assert (got.status_code, got.content) == (200, right)
        assert got.headers["Content-Type"] == "application/octet-stream"
        assert int(got.headers["Content-Length"]) == len(right)
        assert got.history[0].status_code == 307
    beyond = requests.get(web.path("/r/file", op="OPEN", offset=350_001))
    assert error(beyond) == (403, "IOException")
    told = status(web, "/r/file")
    assert (told["length"], told["owner"], told["permission"]) == (350_000, "ann", "600")
    assert (told["blockSize"], told["replication"], told["type"]) == (100_000, 2, "FILE")
    assert told["modificationTime"] > 1.6e12
    for answer in (True, False):
        gone = requests.delete(web.path("/r/file", op="DELETE"))
        assert gone.json() == {"boolean": answer}


def test_a_file_exists_once_all_of_it_has_come_and_one_creator_wins(web):
    first = requests.put(web.path("/race", op="CREATE"), allow_redirects=False)
    where = first.headers["Location"]
    begun, end = threading.Event(), threading.Event()

    def slow():
        yield DATA[:1000]
        begun.set()
        end.wait(30)
        yield DATA[1000:]

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(requests.put, where, data=slow())  # chunked
        begun.wait(30)
        assert error(requests.get(web.path("/race", op="GETFILESTATUS"))) == (
            404,
            "FileNotFoundException",
        )
        assert requests.put(where, data=b"quick").status_code == 201
        end.set()
        assert error(late.result()) == (403, "FileAlreadyExistsException")
    assert requests.get(web.path("/race", op="OPEN")).content == b"quick"
    over = create(web, "/race", b"over", overwrite="true")
    assert over.status_code == 201
    assert requests.get(web.path("/race", op="OPEN")).content == b"over"


def test_an_upload_that_breaks_off_leaves_nothing(web):
    where = requests.put(web.path("/broken", op="CREATE"), allow_redirects=False).headers[
        "Location"
    ]
    url = urlsplit(where)
    connection = http.client.HTTPConnection(url.netloc)
    connection.putrequest("PUT", f"{url.path}?{url.query}")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders()
    connection.send(DATA)
    connection.close()
    assert create(web, "/after", b"x").status_code == 201
    assert requests.get(web.path("/broken", op="GETFILESTATUS")).status_code == 404


def test_appends_go_to_one_location_again_and_again(web):
    create(web, "/grows", DATA[:1])
    first = requests.post(web.path("/grows", op="APPEND"), allow_redirects=False)
    assert first.status_code == 307
    for begin, end in ((1, 150_000), (150_000, 150_000), (150_000, 350_000)):
        assert requests.post(first.headers["Location"], data=DATA[begin:end]).status_code == 200
    assert requests.get(web.path("/grows", op="OPEN")).content == DATA
    cut = requests.post(web.path("/grows", op="TRUNCATE", newlength=123_456))
    assert cut.json() == {"boolean": True}
    assert requests.get(web.path("/grows", op="OPEN")).content == DATA[:123_456]
    create(web, "/more", b"more")
    requests.post(web.path("/grows", op="CONCAT", sources="/more"))
    assert requests.get(web.path("/grows", op="OPEN", offset=123_456)).content == b"more"
    assert error(requests.post(web.path("/nothing", op="APPEND"))) == (
        404,
        "FileNotFoundException",
    )


def checksum(data, block):
    """MD5 of the MD5s of the CRC32Cs, by HDFS's rule, in the plainest way."""
    md5s = b""
    for begin in range(0, len(data), block):
        part = data[begin : begin + block]
        sums = [crc32c.crc32c(part[at : at + 512]) for at in range(0, len(part), 512)]
        md5s += hashlib.md5(b"".join(each.to_bytes(4, "big") for each in sums)).digest()
    buffer = 32
    while buffer < len(md5s):
        buffer *= 2
    return hashlib.md5(md5s.ljust(buffer, b"\0")).hexdigest()


@pytest.mark.parametrize("length", [1, 511, 99_999, 100_000, 100_001, 350_000])
def test_checksums_are_those_of_hdfs(web, length):
    path = f"/sums/{length}"
    create(web, path, DATA[:length])
    told = requests.get(web.path(path, op="GETFILECHECKSUM")).json()["FileChecksum"]
    per_block = 100_000 // 512 if length > 100_000 else 0
    assert told["algorithm"] == f"MD5-of-{per_block}MD5-of-512CRC32C"
    head = f"00000200{per_block:016x}"
    assert told["bytes"] == head + checksum(DATA[:length], 100_000) + "00000000"
    assert told["length"] == 28


def test_the_checksum_of_no_bytes_is_that_of_hdfs(web):
    create(web, "/sums/empty")
    told = requests.get(web.path("/sums/empty", op="GETFILECHECKSUM")).json()["FileChecksum"]
    assert told["algorithm"] == "MD5-of-0MD5-of-0CRC32"
    assert "70bc8f4b72a86921468bf8e8441dce51" in told["bytes"]


# Names -------------------------------------------------------------------------------------------
def test_folders_listings_and_summaries(web):
    assert requests.put(web.path("/d/e", op="MKDIRS")).json() == {"boolean": True}
    assert requests.put(web.path("/d/e", op="MKDIRS")).json() == {"boolean": True}
    for name in "cab":
        create(web, f"/d/{name}", name.encode() * 3)
    listed = requests.get(web.path("/d", op="LISTSTATUS")).json()["FileStatuses"]["FileStatus"]
    assert [each["pathSuffix"] for each in listed] == ["a", "b", "c", "e"]
    assert listed[3]["type"] == "DIRECTORY"
    alone = requests.get(web.path("/d/a", op="LISTSTATUS")).json()["FileStatuses"]["FileStatus"]
    assert [each["pathSuffix"] for each in alone] == [""]
    empty = requests.get(web.path("/d/e", op="LISTSTATUS")).json()
    assert empty == {"FileStatuses": {"FileStatus": []}}
    part = requests.get(web.path("/d", op="LISTSTATUS_BATCH", startAfter="b")).json()
    part = part["DirectoryListing"]
    shown = part["partialListing"]["FileStatuses"]["FileStatus"]
    assert ([each["pathSuffix"] for each in shown], part["remainingEntries"]) == (["c", "e"], 0)
    told = requests.get(web.path("/d", op="GETCONTENTSUMMARY")).json()["ContentSummary"]
    counts = told["directoryCount"], told["fileCount"], told["length"], told["spaceConsumed"]
    assert counts == (2, 3, 9, 18)
    assert status(web, "/d")["childrenNum"] == 4
    over = requests.put(web.path("/d/a", op="MKDIRS"))
    assert error(over) == (403, "FileAlreadyExistsException")
    below = requests.put(web.path("/d/a/x", op="MKDIRS"))
    assert error(below) == (403, "ParentNotDirectoryException")
    full = requests.delete(web.path("/d", op="DELETE"))
    assert error(full) == (403, "PathIsNotEmptyDirectoryException")
    assert requests.delete(web.path("/d", op="DELETE", recursive="True")).json()["boolean"]
    assert requests.delete(web.path("/", op="DELETE", recursive="True")).json() == {
        "boolean": False
    }


def test_renames_as_hdfs_does_them(web):
    create(web, "/n/f", b"f")
    create(web, "/n/g", b"g")
    requests.put(web.path("/n/into", op="MKDIRS"))

    def rename(source, target):
        return requests.put(web.path(source, op="RENAME", destination=quote(target)))

    for source, target, right in (
        ("/n/missing", "/n/x", False),
        ("/n/f", "/n/g", False),  # a file in the way
        ("/n/f", "/nowhere/x", False),  # no folder there
        ("/n", "/n/into/n", False),  # into itself
        ("/n/f", "/n/f", True),
        ("/n/f", "/n/into", True),  # moves inside
        ("/n/into/f", "/n/into/../h i", True),
        ("/n/h i", "/n/f", True),
    ):
        assert rename(source, target).json() == {"boolean": right}, (source, target)
    assert requests.get(web.path("/n/f", op="OPEN")).content == b"f"
    assert error(rename("/n/f", "x")) == (400, "IllegalArgumentException")
    none = requests.put(web.path("/n/f", op="RENAME"))
    assert error(none) == (400, "IllegalArgumentException")


def test_attributes(web):
    create(web, "/at", DATA)
    for parameters in (
        {"op": "SETPERMISSION", "permission": "1777"},
        {"op": "SETOWNER", "owner": "bob", "group": "staff"},
        {"op": "SETTIMES", "modificationtime": 1_000, "accesstime": -1},
    ):
        done = requests.put(web.path("/at", **parameters))
        assert (done.status_code, done.content) == (200, b"")
    told = status(web, "/at")
    assert (told["permission"], told["owner"], told["group"]) == ("1777", "bob", "staff")
    assert told["modificationTime"] == 1_000
    assert told["accessTime"] > 1.6e12
    more = requests.put(web.path("/at", op="SETREPLICATION", replication=3))
    assert more.json() == {"boolean": True}
    assert status(web, "/at")["replication"] == 3
    folder = requests.put(web.path("/", op="SETREPLICATION", replication=3))
    assert folder.json() == {"boolean": False}


def test_block_locations(web):
    create(web, "/where", DATA)
    told = requests.get(
        web.path("/where", op="GETFILEBLOCKLOCATIONS", offset=150_000, length=60_000)
    )
    blocks = told.json()["BlockLocations"]["BlockLocation"]
    assert [(each["offset"], each["length"]) for each in blocks] == [
        (100_000, 100_000),
        (200_000, 100_000),
    ]
    for each in blocks:
        assert len(each["hosts"]) == 2
        assert each["topologyPaths"] == [f"/{n[:2]}/{n}:9866" for n in each["hosts"]]
    old = requests.get(web.path("/where", op="GET_BLOCK_LOCATIONS")).json()["LocatedBlocks"]
    assert old["fileLength"] == len(DATA)
    assert [each["startOffset"] for each in old["locatedBlocks"]] == [0, 100_000, 200_000, 300_000]


# Errors ------------------------------------------------------------------------------------------
def test_errors_are_hadoops(web):
    create(web, "/f", b"x")
    for verb, path, parameters, right in (
        ("GET", "/none", {"op": "GETFILESTATUS"}, (404, "FileNotFoundException")),
        ("GET", "/f", {"op": "NOSUCH"}, (400, "IllegalArgumentException")),
        ("GET", "/f", {"op": "MKDIRS"}, (400, "IllegalArgumentException")),
        ("GET", "/f", {}, (400, "UnsupportedOperationException")),
        ("GET", "/f", {"op": "OPEN", "offset": "-1"}, (400, "IllegalArgumentException")),
        ("GET", "/f", {"op": "OPEN", "offset": "1e3"}, (400, "IllegalArgumentException")),
        ("GET", "/f", {"op": "OPEN", "length": "9" * 30}, (400, "IllegalArgumentException")),
        ("PUT", "/f", {"op": "CREATE", "overwrite": "maybe"}, (400, "IllegalArgumentException")),
        (
            "PUT",
            "/f",
            {"op": "SETPERMISSION", "permission": "9"},
            (400, "IllegalArgumentException"),
        ),
        ("GET", "/", {"op": "OPEN"}, (404, "FileNotFoundException")),
        ("GET", "/a/../f", {"op": "GETFILESTATUS"}, (400, "IllegalArgumentException")),
        ("GET", "/%ff", {"op": "GETFILESTATUS"}, (400, "IllegalArgumentException")),
    ):
        url = urlsplit(web.path(path, **parameters))
        connection = http.client.HTTPConnection(url.netloc)  # leaves the path as it is
        connection.request(verb, f"{url.path}?{url.query}")
        response = connection.getresponse()
        told = json.loads(response.read())["RemoteException"]
        connection.close()
        assert (response.status, told["exception"]) == right, (verb, path, parameters)
    assert error(requests.get(f"{web.url}/elsewhere")) == (404, "IOException")


def test_names_of_all_kinds(web):
    names = ["a b", "a+b", "a%b", "a%25b", "a#b", "a?b", "a;b", "a&b", "a\\b", "ü", "日本", "…"]
    for name in names:
        assert create(web, f"/odd/{quote(name)}", name.encode()).status_code == 201
    listed = requests.get(web.path("/odd", op="LISTSTATUS")).json()["FileStatuses"]["FileStatus"]
    assert sorted(each["pathSuffix"] for each in listed) == sorted(names)
    for name in names:
        got = requests.get(web.path(f"/odd/{quote(name)}", op="OPEN"))
        assert got.content == name.encode()


def test_only_this_machine_is_answered_and_no_other_sites_pages(web):
    for headers in ({"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example:80"}):
        refused = requests.get(web.path("/", op="LISTSTATUS"), headers=headers)
        assert error(refused) == (403, "AccessControlException")
    other = {"Origin": "http://evil.example"}
    assert error(requests.put(web.path("/x", op="MKDIRS"), headers=other)) == (
        403,
        "AccessControlException",
    )
    own = {"Origin": web.url}
    assert requests.put(web.path("/own", op="MKDIRS"), headers=own).status_code == 200


# Clients -----------------------------------------------------------------------------------------
def test_hdfscli(web, tmp_path):
    client = hdfs.InsecureClient(web.url, user="ann")
    client.makedirs("cli")
    assert client.resolve("cli") == "/user/ann/cli"
    local = tmp_path / "local"
    local.write_bytes(DATA)
    client.upload("/user/ann/cli/data", str(local))
    client.upload("/user/ann/cli/data", str(local), overwrite=True)
    assert client.list("cli") == ["data"]
    client.write("cli/text", data="one\n", encoding="utf-8")
    client.write("cli/text", data="two\n", encoding="utf-8", append=True)
    with client.read("cli/text", encoding="utf-8") as reader:
        assert reader.read() == "one\ntwo\n"
    with client.read("cli/data", offset=1000, length=10) as reader:
        assert reader.read() == DATA[1000:1010]
    client.download("cli/data", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == DATA
    assert client.content("cli")["fileCount"] == 2
    assert client.checksum("cli/data")["algorithm"].startswith("MD5-of-195MD5")
    assert client.status("cli/missing", strict=False) is None
    client.rename("cli/text", "cli/renamed")
    client.set_permission("cli/renamed", "600")
    client.set_owner("cli/renamed", owner="bob")
    assert client.status("cli/renamed")["owner"] == "bob"
    with pytest.raises(hdfs.HdfsError, match="non empty"):
        client.delete("cli")
    assert client.delete("cli", recursive=True)
    assert not client.delete("cli", recursive=True)


def test_hdfscli_command(web, tmp_path):
    settings = web.dfs.folder.client_files / "hdfscli.cfg"
    environment = os.environ | {"HDFSCLI_CONFIG": str(settings), "TMPDIR": str(tmp_path)}

    def hdfscli(*arguments):
        command = [Path(sys.executable).with_name("hdfscli"), *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    (tmp_path / "local").write_bytes(DATA)
    hdfscli("upload", "--silent", "local", "/command/data")
    assert hdfscli("download", "--silent", "/command/data", "-") == DATA
    (tmp_path / "more").write_bytes(b"more")
    hdfscli("upload", "--silent", "--append", "more", "/command/data")
    assert requests.get(web.path("/command/data", op="OPEN", offset=350_000)).content == b"more"


def test_fsspec(web):
    where = urlsplit(web.url)
    store = fsspec.filesystem("webhdfs", host=where.hostname, port=where.port, user="ann")
    with store.open("/fs/data", "wb", block_size=2**17) as file:
        file.write(DATA)
    assert store.cat("/fs/data") == DATA
    with store.open("/fs/data", "rb") as file:
        file.seek(99_995)
        assert file.read(10) == DATA[99_995:100_005]
    assert store.ls("/fs", detail=False) == ["/fs/data"]
    assert store.info("/fs/data")["size"] == len(DATA)
    with pytest.raises(FileNotFoundError):
        store.cat("/fs/none")
    store.mv("/fs/data", "/fs/moved")
    assert store.cat_file("/fs/moved", start=-6) == DATA[-6:]
    store.pipe_file("/fs/sub/a.csv", b"a")
    assert store.glob("/fs/m*") == ["/fs/moved"]
    assert store.glob("/fs/**/*.csv") == ["/fs/sub/a.csv"]
    assert (store.du("/fs"), store.du("/fs/sub")) == (len(DATA) + 1, 1)
    assert store.ukey("/fs/moved")["algorithm"].startswith("MD5-of-195MD5")
    store.rm("/fs", recursive=True)
    assert not store.exists("/fs")


def test_curl_alone(web, tmp_path):
    """All that a script needs, as one call after the other; standard output is answer by answer."""
    (tmp_path / "one").write_bytes(b"one\n")
    steps = (
        (["-L", "-T", "one"], {"op": "CREATE"}, "/c/f", ""),
        (["-L", "-X", "POST", "-T", "one"], {"op": "APPEND"}, "/c/f", ""),
        (["-L"], {"op": "OPEN", "offset": 2, "length": 4}, "/c/f", "e\non"),
        (["-X", "PUT"], {"op": "RENAME", "destination": "/c/g"}, "/c/f", '{"boolean":true}'),
        (["-L"], {"op": "OPEN"}, "/c/g", "one\none\n"),
        (["-X", "DELETE"], {"op": "DELETE", "recursive": "true"}, "/c", '{"boolean":true}'),
    )
    command = ["curl", "-sS", "--fail"]
    for options, parameters, path, _ in steps:
        command += [*options, web.path(path, **parameters), "--next", "-sS", "--fail"]
    done = subprocess.run(command[:-3], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace(" ", "") == "".join(right for *_, right in steps)


def test_curl(web, tmp_path):
    large = tmp_path / "large"
    large.write_bytes(DATA * 4)  # large enough that curl asks before it sends
    command = ["curl", "-sS", "-L", "-w", "%{http_code}"]
    put = [*command, "-T", str(large), web.path("/curl", op="CREATE")]
    assert subprocess.run(put, capture_output=True, check=True).stdout == b"201"
    got = tmp_path / "got"
    get = [*command, "-o", str(got), web.path("/curl", op="OPEN")]
    assert subprocess.run(get, capture_output=True, check=True).stdout == b"200"
    assert got.read_bytes() == DATA * 4
