"""The options of ``hadoop jar``: what is sent for them, and what is refused."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import os
import random
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from railyard.cluster.errors import UsageError
from railyard.dfs.messages import NodeStorage, StorageReport
from railyard.gateway.shell.admin import described
from railyard.gateway.shell.jar import JarOptions, Shipped
from railyard.gateway.shell.main import run
from railyard.gateway.shell.names import size
from railyard.gateway.shell.paths import absolute, braces
from railyard.gateway.shell.web import Web
from railyard.gateway.webhdfs.operations import storage_report
from tests.command_line import ROOT

NEEDED = ["-input", "/in", "-output", "/out", "-mapper", "cat"]


def test_options_become_a_request(tmp_path):
    (tmp_path / "job.xml").write_text(
        "<configuration><property><name>a</name><value>file</value></property>"
        "<property><name>b</name><value>file</value></property></configuration>"
    )
    typed = (
        f"-D a=1=2 -Dc=d -jobconf e=f -conf {tmp_path}/job.xml -files x#y,hdfs:///z"
        " -archives a.zip -cacheArchive /lib.zip#lib -file local.py -input /in/{a,b}*,/other"
        " -input /more -output /out"
        " -mapper mapper -combiner c -reducer r -numReduceTasks 3 -cmdenv K=v -partitioner P"
        " -inputformat I -outputformat O -fs webhdfs://h:1 -verbose -background"
    )
    options = JarOptions(typed.split())
    assert options.generic.settings() == {"a": "1=2", "b": "file", "c": "d", "e": "f"}
    assert options.inputs == ["/in/{a,b}*", "/other", "/more"]
    assert options.files == [
        Shipped("x#y"),
        Shipped("hdfs:///z"),
        Shipped("a.zip", unpacked=True),
        Shipped("/lib.zip#lib", unpacked=True, stored=True),
        Shipped("local.py"),
    ]
    assert [shipped.name for shipped in options.files] == ["y", "z", "a.zip", "lib", "local.py"]
    assert options.environment == {"K": "v"}
    assert options.background
    assert options.request == {
        "output": "/out",
        "mapper": "mapper",
        "combiner": "c",
        "reducer": "r",
        "reduces": "3",
        "partitioner": "P",
        "input_format": "I",
        "output_format": "O",
    }


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (NEEDED[2:], "Missing required option: input"),
        (NEEDED[:4], "Missing required option: mapper"),
        ([*NEEDED, "-libjars", "x.jar"], "-libjars: not supported: Java classes are not run"),
        ([*NEEDED, "-reducer", "a", "-reducer", "b"], "-reducer b: is given twice: need it once"),
        ([*NEEDED, "-reducer"], "-reducer: need a value"),
        ([*NEEDED, "-D", "novalue"], "-D novalue: need NAME=VALUE"),
        ([*NEEDED, "-cmdenv", "=x"], "-cmdenv =x: need NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(words, why):
    with pytest.raises(UsageError) as raised:
        JarOptions(words)
    assert str(raised.value) == why


# ``hadoop fs`` with the texts and exit statuses of FsShell, against a real block store.


DATA = random.Random(3).randbytes(250_000)


class Hadoop:
    """The command as scripts call it."""

    def __init__(self, web, cwd):
        files = web.dfs.folder.client_files
        self.environment = os.environ | {"HADOOP_CONF_DIR": str(files), "HADOOP_USER_NAME": "ann"}
        self.cwd = cwd

    def __call__(self, *arguments, stdin=b""):
        main = ROOT / "gateway" / "shell" / "__main__.py"
        command = [sys.executable, "-I", "-S", main, "hadoop", *arguments]
        done = subprocess.run(
            command, env=self.environment, cwd=self.cwd, input=stdin, capture_output=True
        )
        return done.returncode, done.stdout, done.stderr.decode()

    def ok(self, *arguments, stdin=b""):
        status, out, errors = self(*arguments, stdin=stdin)
        assert (status, errors) == (0, ""), arguments
        return out

    def fails(self, *arguments, status=1):
        got, out, errors = self(*arguments)
        assert (got, out) == (status, b""), arguments
        return errors


@pytest.fixture
def hadoop(web, tmp_path):
    return Hadoop(web, tmp_path)


def test_files_go_in_and_out(hadoop, tmp_path):
    (tmp_path / "data").write_bytes(DATA)
    hadoop.ok("fs", "-mkdir", "-p", "hdfs:///user/ann/in/")
    hadoop.ok("fs", "-put", "data", "in/")
    hadoop.ok("fs", "-put", "-", "in/typed", stdin=b"one\ntwo\n")
    assert hadoop.ok("fs", "-cat", "in/data") == DATA
    assert hadoop.ok("fs", "-cat", "/user/ann/in/t*") == b"one\ntwo\n"
    hadoop.ok("fs", "-appendToFile", "-", "in/typed", stdin=b"three\n")
    assert hadoop.ok("fs", "-tail", "in/typed") == b"one\ntwo\nthree\n"
    hadoop.ok("fs", "-get", "in", "out")
    assert (tmp_path / "out" / "data").read_bytes() == DATA
    hadoop.ok("fs", "-getmerge", "in/{typed,data}", "both")
    assert (tmp_path / "both").read_bytes() == b"one\ntwo\nthree\n" + DATA
    hadoop.ok("fs", "-put", "out", "copy")
    hadoop.ok("fs", "-cp", "in/data", "copy/again")
    hadoop.ok("fs", "-mv", "copy/again", "moved")
    assert hadoop.ok("fs", "-cat", "moved") == DATA
    listed = hadoop.ok("fs", "-ls", "-R", "/user/ann").decode().splitlines()
    assert [line.split()[-1] for line in listed] == [
        f"/user/ann/{name}" for name in ("copy", "copy/data", "copy/typed", "in", "in/data")
    ] + ["/user/ann/in/typed", "/user/ann/moved"]
    assert hadoop.ok("fs", "-rm", "-r", "-skipTrash", "copy", "moved") == (
        b"Deleted copy\nDeleted moved\n"
    )


def test_texts_of_listings(hadoop):
    hadoop.ok("fs", "-mkdir", "/t")
    hadoop.ok("fs", "-put", "-", "/t/f", stdin=b"12345")
    hadoop.ok("fs", "-chmod", "640", "/t/f")
    hadoop.ok("fs", "-chown", "bob:staff", "/t/f")
    head, line = hadoop.ok("fs", "-ls", "/t").decode().splitlines()
    assert head == "Found 1 items"
    assert line.startswith("-rw-r-----   2 bob staff          5 20")
    assert line.endswith(" /t/f")
    folder = hadoop.ok("fs", "-ls", "-d", "/t").decode()
    assert folder.startswith("drwxr-xr-x   - ann supergroup          0 20")
    assert hadoop.ok("fs", "-du", "-s", "/t") == b"5  10  /t\n"
    assert hadoop.ok("fs", "-count", "/t").split() == [b"1", b"1", b"5", b"/t"]
    assert hadoop.ok("fs", "-stat", "%n %b %r %u %F", "/t/f") == b"f 5 2 bob regular file\n"
    assert b"MD5-of-0MD5-of-512CRC32C" in hadoop.ok("fs", "-checksum", "/t/f")
    assert hadoop.ok("fs", "-setrep", "3", "/t/f") == b"Replication 3 set: /t/f\n"
    hadoop.ok("fs", "-touchz", "/t/z")
    for option, path, status in (
        ("-e", "/t/f", 0),
        ("-e", "/none", 1),
        ("-d", "/t", 0),
        ("-d", "/t/f", 1),
        ("-z", "/t/z", 0),
        ("-z", "/t/f", 1),
        ("-s", "/t/f", 0),
    ):
        assert hadoop("fs", "-test", option, path) == (status, b"", ""), (option, path)


def test_texts_of_errors(hadoop):
    hadoop.ok("fs", "-mkdir", "/e")
    hadoop.ok("fs", "-touchz", "/e/f")
    missing = "`/none': No such file or directory\n"
    assert hadoop.fails("fs", "-ls", "/none") == f"ls: {missing}"
    assert hadoop.fails("fs", "-cat", "/none") == f"cat: {missing}"
    assert hadoop.fails("fs", "-rm", "/none") == f"rm: {missing}"
    assert hadoop.fails("fs", "-put", "none", "/e") == "put: `none': No such file or directory\n"
    assert hadoop.fails("fs", "-put", "/dev/null", "/e/f") == "put: `/e/f': File exists\n"
    assert hadoop.fails("fs", "-mkdir", "/e") == "mkdir: `/e': File exists\n"
    assert hadoop.fails("fs", "-cat", "/e") == "cat: `/e': Is a directory\n"
    assert hadoop.fails("fs", "-rm", "/e") == "rm: `/e': Is a directory\n"
    assert hadoop.fails("fs", "-rmdir", "/e") == "rmdir: `/e': Directory is not empty\n"
    assert hadoop.fails("fs", "-foo", status=255).startswith("-foo: Unknown command\nUsage:")
    assert hadoop("fs", "-rm", "-f", "/none") == (0, b"", "")
    assert hadoop.ok("version").startswith(b"Hadoop 3.")


def test_a_gateway_that_is_not_there(hadoop, tmp_path):
    hadoop.environment["HADOOP_CONF_DIR"] = str(tmp_path)
    hadoop.environment["RAILYARD_HOME"] = str(tmp_path)
    assert hadoop.fails("fs", "-ls", "/").startswith("hadoop: no gateway is known: railyard up")


def test_paths_and_sizes():
    assert absolute("hdfs:///a/../b/", "ann") == "/b"
    assert absolute("hdfs://host:1/", "ann", "host:1") == "/"
    assert absolute("x", "ann") == "/user/ann/x"
    assert braces("/a/{b,c{d,e}}") == ["/a/b", "/a/cd", "/a/ce"]
    assert [size(n, True) for n in (0, 1023, 1024, 1536, 5 * 2**30)] == [
        "0",
        "1023",
        "1.0 K",
        "1.5 K",
        "5.0 G",
    ]


def test_dfsadmin_has_the_words_of_hadoops(hadoop):
    safe = "-safemode"
    said = [hadoop.ok("dfsadmin", safe, word) for word in ("get", "enter", "get")]
    assert said == [b"Safe mode is OFF\n", b"Safe mode is ON\n", b"Safe mode is ON\n"]
    report = hadoop.ok("dfsadmin", "-report").decode()
    assert report.startswith("Safe mode is ON\nConfigured Capacity: ")
    words = "mkdir: Cannot create directory /locked. Name node is in safe mode. It was turned on"
    assert words in hadoop.fails("fs", "-mkdir", "/locked")
    assert [hadoop.ok("dfsadmin", safe, word) for word in ("leave", "wait")] == said[:1] * 2
    hadoop.ok("fs", "-put", "-", "/reported", stdin=bytes(2048))
    lines = hadoop.ok("dfsadmin", "-report", "-live").decode().splitlines()
    assert "Live datanodes (4):" in lines
    assert not [line for line in lines if line.startswith("Dead")]
    assert "\tUnder replicated blocks: 0" in lines
    first = lines[lines.index("Name: r0n0:9866 (r0n0)") :][:12]
    assert first[1:4] == ["Hostname: r0n0", "Rack: /r0", "Decommission Status : Normal"]
    heads = [line.partition(": ")[0] for line in first[4:]]
    assert heads[:4] == ["Configured Capacity", "DFS Used", "Non DFS Used", "DFS Remaining"]
    assert heads[4:] == ["DFS Used%", "DFS Remaining%", "Last contact", "Num of Blocks"]
    dead = hadoop.ok("dfsadmin", "-report", "-dead").decode()
    assert "Dead datanodes (0):" in dead
    assert "Live" not in dead


def test_dfsadmin_that_is_misused(hadoop):
    assert "Usage: hdfs dfsadmin [-report]" in hadoop.fails("dfsadmin", status=255)
    assert hadoop.fails("dfsadmin", "-x", status=255).startswith("x: Unknown command\nUsage")
    assert "Usage: hdfs dfsadmin [-safemode enter" in hadoop.fails(
        "dfsadmin", "-safemode", status=255
    )


def test_sums_of_a_report_are_those_of_the_nodes_in_service():
    def node(name, alive=True, draining=False, replicas=2):
        return NodeStorage(
            node=name,
            alive=alive,
            draining=draining,
            replicas=replicas,
            stored_bytes=50,
            silent_s=1.0,
        )

    nodes = (
        node("r0n0"),
        node("r0n1", draining=True),
        node("r1n0", draining=True, replicas=0),
        node("r1n1"),
        node("r2n0", alive=False),
    )
    counts = dict.fromkeys(
        ["under_replicated", "urgent", "corrupt", "missing", "missing_single", "leaving"], 0
    )
    report = storage_report(StorageReport(safe_mode=False, nodes=nodes, **counts), 4000)
    assert (report["capacity"], report["used"], report["remaining"]) == (2100, 100, 2000)
    each = [(node["drain"], node["capacity"], node["remaining"]) for node in report["nodes"]]
    assert each[:3] == [("", 1050, 1000), ("draining", 1050, 1000), ("drained", 1050, 1000)]
    assert each[4] == ("", 50, 0)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 (0 B)"),
        (1023, "1023 (1023 B)"),
        (24576, "24576 (24 KB)"),
        (207929917440, "207929917440 (193.65 GB)"),
        (1024**2 - 1, "1048575 (1.00 MB)"),
    ],
)
def test_bytes_as_dfsadmin_has_them(count, words):
    assert described(count) == words


# ``hadoop fs`` beside Hadoop's own: the same commands, one after the other, say the same.
#
# ``java/fsshell.transcript`` was recorded with Hadoop's FsShell 3.4.1 on a real HDFS 2.7.3.  Our
# own command must say the same of our block store, and so must Hadoop's, by WebHDFS.  Hadoop's is
# left out where there is no Java or no jars of it: ``java/fetch-jars`` fetches them.


JAVA = Path(__file__).parent / "java"
JARS = os.environ.get("RAILYARD_HADOOP_JARS", "")


class Said(NamedTuple):
    """A command, its exit status, and what it wrote."""

    command: str
    status: int
    out: str
    errors: str


def recorded() -> list[Said]:
    """Of each command: "$ COMMAND", lines of output, those of errors after "! ", "= STATUS"."""
    said, command, out, errors = [], "", "", ""
    for line in (JAVA / "fsshell.transcript").read_text(encoding="utf-8").splitlines():
        mark, text = line[:2], line[2:].encode().decode("unicode_escape")
        if mark == "$ ":
            command, out, errors = line[2:], "", ""
        elif mark == "= ":
            said.append(Said(command, int(text), out, errors))
        elif mark == "! ":
            errors += text
        elif mark == "  ":
            out += text
    return said


def written(said: list[Said]) -> str:
    """The transcript of what was said."""
    lines = []
    for each in said:
        lines.append(f"$ {each.command}")
        for mark, text in (("  ", each.out), ("! ", each.errors)):
            each_line = text.splitlines(keepends=True)
            lines += [mark + line.encode("unicode_escape").decode() for line in each_line]
        lines.append(f"= {each.status}")
    return "\n".join(lines) + "\n"


def plain(text: str, folder: Path) -> str:
    """Without times, addresses, the local folder, and the list of all commands."""
    text = re.sub(r"\bUsage: hadoop fs \[generic options\]\n.*", "Usage ...\n", text, flags=re.S)
    text = re.sub(r"\b(web)?hdfs://127\.0\.0\.1:\d+", "FS", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "TIME", text)
    return text.replace(str(folder), "FOLDER")


def local_files(folder: Path) -> Path:
    (folder / "folder").mkdir()
    (folder / "data").write_text("hello\nworld\n")
    (folder / "folder" / "x").write_text("x\n")
    (folder / "z.gz").write_bytes(gzip.compress(b"zipped\n"))
    return folder


def own_shell(command: str, web: Web) -> tuple[int, str, str]:
    out, errors = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = run(command.split(" "), web)
    return status, out.buffer.getvalue().decode(), errors.buffer.getvalue().decode()


def hadoops_shell(commands: list[str], folder: Path, **properties: str) -> list[Said]:
    """What Hadoop's FsShell says, as the user root, in a local folder."""
    lines = "".join(command.replace(" ", "\t") + "\n" for command in commands)
    names = [f"{name.replace('_', '.')}={value}" for name, value in properties.items()]
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{JARS}/*"]
    done = subprocess.run(
        ["java", *quick, JAVA / "Shell.java", *names],
        input=lines.encode(),
        capture_output=True,
        cwd=folder,
        env=os.environ | {"HADOOP_USER_NAME": "root", "TZ": "UTC"},
    )
    assert done.returncode == 0, done.stderr.decode()
    said = []
    for command, line in zip(commands, done.stdout.decode().splitlines(), strict=True):
        status, _, texts = line.partition(" ")
        out, errors = (base64.b64decode(text).decode() for text in texts.split("."))
        said.append(Said(command, int(status), plain(out, folder), plain(errors, folder)))
    return said


def test_our_command_says_what_hadoops_says(web, tmp_path, monkeypatch):
    monkeypatch.chdir(local_files(tmp_path))
    said = []
    for each in recorded():
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"typed\n")))
        with closing(Web(web.url.removeprefix("http://"), "root")) as connection:
            status, out, errors = own_shell(each.command, connection)
        said.append(Said(each.command, status, plain(out, tmp_path), plain(errors, tmp_path)))
    assert said == recorded()


@pytest.mark.skipif(not JARS, reason="RAILYARD_HADOOP_JARS names no folder with Hadoop's jars")
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java")
def test_hadoops_own_command_finds_an_hdfs_here(web, tmp_path):
    commands = [each.command for each in recorded()]
    where = web.url.replace("http://", "webhdfs://")
    said = hadoops_shell(commands, local_files(tmp_path), fs_defaultFS=where, dfs_replication="2")
    assert said == recorded()
    trash = ["-touchz /fs-x", "-rm /fs-x", "-ls -C /user/root/.Trash/Current"]
    moved = hadoops_shell(trash, tmp_path, fs_defaultFS=where, fs_trash_interval="60")
    assert moved[2].out == "/user/root/.Trash/Current/fs-x\n"
