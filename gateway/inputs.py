"""The files that a job's -input stands for: folders, patterns, and what is hidden in them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from railyard.cluster.packed import HEAD_BYTES, ending_of, fault_of
from railyard.dfs.client import DfsClient
from railyard.dfs.matching import is_pattern, matching
from railyard.dfs.messages.files import FileStatus
from railyard.gateway.http.errors import RemoteError
from railyard.gateway.shell.paths import absolute, braces
from railyard.jobs.streaming.lines import raw_lines

_HIDDEN = ("_", ".")
FILES_MAX = 2**14
TASKS_MAX = 10_000  #: maps by numbers of lines


def input_files(
    client: DfsClient, typed: str, user: str, own: Sequence[str] = (), *, recursive: bool
) -> list[str]:
    """The paths of all files of an input, in order; raises ``RemoteError`` if there is none.

    ``own``: the addresses of the block store; ``UsageError`` for an input of another.  As in
    Hadoop, names that begin with _ or . are no input, and a folder within a folder is wrong unless
    ``recursive``.
    """
    paths = [absolute(each, user, *own) for each in braces(typed)]
    found = [status for path in paths for status in matching(client, path)]
    if not found:
        magic = is_pattern(typed) or len(braces(typed)) > 1
        why = "Input Pattern {} matches 0 files" if magic else "Input path does not exist: {}"
        raise _invalid(why.format(typed))
    files = [path for status in found for path in _files(client, status, recursive)]
    if len(files) > FILES_MAX:
        raise _invalid(f"{typed}: {len(files)} files: need at most {FILES_MAX}")
    return files


def line_cuts(client: DfsClient, path: str, lines: int) -> tuple[int, ...]:
    """The offsets at which every so many lines of a file begin; none of an empty file."""
    begins: list[int] = []
    offset = number = 0
    for block in raw_lines(client.read(path)):
        for line in block.splitlines(keepends=True):
            if number % lines == 0:
                begins.append(offset)
                if len(begins) > TASKS_MAX:
                    raise _invalid(f"{path}: more than {TASKS_MAX} maps of {lines} lines")
            number += 1
            offset += len(line)
    return tuple(begins)


def split_cuts(
    client: DfsClient, paths: Sequence[str], maps: int, bytes_min: int
) -> dict[str, tuple[int, ...]]:
    """Where the tasks of each file begin if there should be about so many; {} for empty files.

    As in Hadoop, a task gets at most a block and at most its share of all bytes, but at least
    ``bytes_min``; the last one of a file up to a tenth more.
    """
    lengths = {path: client.status(path).stored_length for path in paths}
    share = sum(lengths.values()) // max(1, maps)
    cuts = {}
    for path, length in lengths.items():
        if not length:
            continue
        block = client.locations(path)[0].stored_length
        step = max(1, bytes_min, min(share, block))
        count = max(1, -(-(10 * length - 11 * step) // (10 * step)) + 1)
        if count > TASKS_MAX:
            raise _invalid(f"{path}: {count} maps of {step} bytes: need at most {TASKS_MAX}")
        cuts[path] = tuple(range(0, count * step, step))
    return cuts


def check_packed(client: DfsClient, path: str) -> None:
    """Raise ``RemoteError`` for a packed file that no task could read."""
    head = b""
    if ending_of(path):
        head = b"".join(map(bytes, client.read(path, 0, HEAD_BYTES)))
    if fault := fault_of(path, head):
        raise _invalid(fault)


def _files(client: DfsClient, status: FileStatus, recursive: bool) -> Iterator[str]:
    if not status.folder:
        yield status.path
        return
    for entry in client.list(status.path):
        if _name(entry).startswith(_HIDDEN):
            continue
        if not entry.folder:
            yield entry.path
        elif recursive:
            yield from _files(client, entry, recursive)
        else:
            right = "-D mapreduce.input.fileinputformat.input.dir.recursive=true reads it"
            raise _invalid(f"Not a file: {entry.path} ({right})")


def _name(status: FileStatus) -> str:
    return posixpath.basename(status.path)


def _invalid(why: str) -> RemoteError:
    return RemoteError(400, "InvalidInputException", why)
