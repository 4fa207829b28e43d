"""``hadoop fs`` beside Hadoop's own: the same commands, one after the other, say the same.

``java/fsshell.transcript`` was recorded with Hadoop's FsShell 3.4.1 on a real HDFS 2.7.3.  Our own
command must say the same of our block store, and so must Hadoop's, by WebHDFS.  Hadoop's is left
out where there is no Java or no jars of it: ``java/fetch-jars`` fetches them.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import os
import re
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from railyard.gateway.shell.fs.fsshell import run
from railyard.gateway.shell.web import Web

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
