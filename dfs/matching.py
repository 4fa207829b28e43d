"""The files and folders of the block store that a pattern stands for, such as /logs/2024-*/a?.txt.

As in Hadoop: ``*``, ``?``, ``[a-c]`` and ``[^a-c]`` match within a name, and no name that begins
with _ or . is matched by a pattern.

Never here: ``{a,b}``, which callers write out first.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re

from railyard.dfs.client import DfsClient
from railyard.dfs.messages.files import FileStatus

_MAGIC = re.compile(r"[*?\[]")
_HIDDEN = ("_", ".")


def is_pattern(path: str) -> bool:
    """Whether a path may stand for several."""
    return _MAGIC.search(path) is not None


def matching(client: DfsClient, pattern: str) -> list[FileStatus]:
    """What matches an absolute path or pattern, in order; [] if nothing does."""
    if not is_pattern(pattern):
        status = client.find(pattern)
        return [] if status is None else [status]
    found = [client.status("/")]
    for name in pattern[1:].split("/"):
        if not is_pattern(name):
            looked = (client.find(posixpath.join(each.path, name)) for each in found)
            found = [status for status in looked if status is not None]
            continue
        shape = re.compile(fnmatch.translate(name.replace("[^", "[!")))
        entries = [entry for each in found if each.folder for entry in client.list(each.path)]
        found = [
            entry
            for entry in entries
            if shape.match(_name(entry)) and not _name(entry).startswith(_HIDDEN)
        ]
    return found


def _name(status: FileStatus) -> str:
    return posixpath.basename(status.path)
