"""What -p of get, put and cp keeps of a file: times and permission, and in the store its owner."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from typing import Any

from railyard.gateway.shell.fs.command import Command
from railyard.gateway.shell.paths import Found


def keep_local(target: Path, found: Found) -> None:
    """Give a local file or folder the times and the permission of one of the block store."""
    status = found.status
    target.chmod(int(status["permission"], 8))
    times_ms = status["accessTime"], status["modificationTime"]
    os.utime(target, ns=(times_ms[0] * 10**6, times_ms[1] * 10**6))


def keep_stored(command: Command, path: str, shown: str, source: Path | Found) -> None:
    """With -p, give what was written those of its source, and owner and group, too."""
    if not command.has("p"):
        return
    kept = _of_local(source) if isinstance(source, Path) else source.status
    times = {"modificationtime": kept["modificationTime"], "accesstime": kept["accessTime"]}
    with command.about(shown):
        web = command.web
        web.ask("PUT", path, "SETPERMISSION", permission=kept["permission"])
        web.ask("PUT", path, "SETOWNER", owner=kept["owner"], group=kept["group"])
        web.ask("PUT", path, "SETTIMES", **times)


def _of_local(path: Path) -> dict[str, Any]:
    status = path.stat()
    try:
        owner, group = pwd.getpwuid(status.st_uid).pw_name, grp.getgrgid(status.st_gid).gr_name
    except KeyError:  # as others see them who have no name for them
        owner, group = str(status.st_uid), str(status.st_gid)
    return {
        "owner": owner,
        "group": group,
        "permission": f"{status.st_mode & 0o1777:o}",
        "modificationTime": int(status.st_mtime * 1000),
        "accessTime": int(status.st_atime * 1000),
    }
