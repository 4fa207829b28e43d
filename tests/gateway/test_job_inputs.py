"""The files that -input stands for, and where their lines are cut into splits."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import Refused
from railyard.dfs.messages.files import FileStatus
from railyard.dfs.paths import MISSING
from railyard.gateway.http.errors import RemoteError
from railyard.gateway.inputs import input_files, line_cuts

FILES = ("/in/a", "/in/b", "/in/_log", "/in/.crc", "/other/c.txt", "/other/d.gz", "/deep/x/y")


class Store:
    """A block store of names; a file is its own content, in pieces of three bytes."""

    def find(self, path: str) -> FileStatus | None:
        if path in FILES:
            return FileStatus(path=path)
        if path == "/" or any(file.startswith(f"{path}/") for file in FILES):
            return FileStatus(path=path, folder=True)
        return None

    def status(self, path: str) -> FileStatus:
        found = self.find(path)
        if found is None:
            raise Refused("there is none", kind=MISSING)
        return found

    def list(self, path: str) -> list[FileStatus]:
        head = path.rstrip("/") + "/"
        names = {file[len(head) :].split("/")[0] for file in FILES if file.startswith(head)}
        return [self.status(posixpath.join(path, name)) for name in sorted(names)]


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, path: str) -> Iterator[memoryview]:
        for at in range(0, len(self.data), 3):
            yield memoryview(self.data[at : at + 3])


@pytest.mark.parametrize(
    ("typed", "files"),
    [
        ("/in", ["/in/a", "/in/b"]),
        ("hdfs:///in/a", ["/in/a"]),
        ("/in/_log", ["/in/_log"]),  # who names it wants it
        ("/in/*", ["/in/a", "/in/b"]),
        ("/{in,other}/[ac]*", ["/in/a", "/other/c.txt"]),
        ("/*/?", ["/deep/x/y", "/in/a", "/in/b"]),
    ],
)
def test_inputs_are_files(typed, files):
    assert input_files(Store(), typed, "ann", recursive=False) == files


def test_folders_within_folders_are_read_if_asked():
    with pytest.raises(RemoteError, match="Not a file: /deep/x "):
        input_files(Store(), "/deep", "ann", recursive=False)
    assert input_files(Store(), "/deep", "ann", recursive=True) == ["/deep/x/y"]


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("/no", "Input path does not exist: /no"),
        ("/in/z*", "Input Pattern /in/z\\* matches 0 files"),
        ("a", "Input path does not exist: a"),
    ],
)
def test_what_is_not_there_is_said(typed, why):
    with pytest.raises(RemoteError, match=why):
        input_files(Store(), typed, "ann", recursive=False)


@given(st.lists(st.sampled_from([b"", b"x", b"long line"]), max_size=12), st.integers(1, 4))
def test_cuts_are_where_lines_begin(lines, each):
    data = b"".join(line + b"\n" for line in lines) + b"last"
    begins = line_cuts(Bytes(data), "/f", each)
    pieces = [data[at:end] for at, end in zip(begins, (*begins[1:], len(data)), strict=True)]
    assert b"".join(pieces) == data
    assert [piece.count(b"\n") for piece in pieces[:-1]] == [each] * (len(pieces) - 1)
    assert len(pieces[-1].splitlines()) <= each
    assert line_cuts(Bytes(b""), "/f", each) == ()
