"""A block store in memory that answers ``hadoop fs`` as the gateway does, without any process."""

from __future__ import annotations

import io
import posixpath
from typing import IO, Any

from railyard.gateway.shell.web import Failed


class MemoryStore:
    """A ``gateway.shell.web.Web``; names are absolute paths."""

    def __init__(self) -> None:
        self.address, self.user = "127.0.0.1:1", "ann"
        self.of_new_files: dict[str, object] = {}
        self.files: dict[str, bytes | None] = {"/": None}  #: None = a folder
        self.attributes: dict[str, dict[str, Any]] = {}
        self._clock_ms = 0

    def another(self) -> MemoryStore:
        return self

    def close(self) -> None:
        pass

    def add(self, path: str, data: bytes | None, **attributes: object) -> None:
        """A file, or a folder if ``data`` is None, with the folders above it."""
        if path != "/" and posixpath.dirname(path) not in self.files:
            self.add(posixpath.dirname(path), None)
        self._clock_ms += 1000
        self.files[path] = data
        self.attributes[path] = {
            "owner": self.user,
            "group": "staff",
            "permission": "755" if data is None else "644",
            "replication": int(str(self.of_new_files.get("replication", 2))),
            "modificationTime": self._clock_ms,
            "accessTime": 10**12 - self._clock_ms,
        } | attributes

    def state(self) -> object:
        """All that is in it, but for times of what was changed."""
        kept = {
            path: {n: v for n, v in each.items() if "Time" not in n or v % 1000 == 7}
            for path, each in self.attributes.items()
            if path in self.files
        }
        return dict(self.files), kept

    def ask(self, verb: str, path: str, op: str, **given: Any) -> dict[str, Any]:
        act = getattr(self, f"_{op.lower()}", None)
        if act is None:
            raise Failed(400, "UnsupportedOperationException", f"{op} is not supported")
        if path not in self.files and op not in ("MKDIRS", "DELETE"):
            raise Failed(404, "FileNotFoundException", f"File does not exist: {path}")
        return act(path, **given) or {}

    def read(self, path: str, offset: int = 0, length: int | None = None) -> io.BufferedReader:
        data = self.files[path] or b""
        end = None if length is None else offset + length
        return io.BufferedReader(io.BytesIO(data[offset:end]))

    def write(
        self, path: str, data: IO[bytes], *, append: bool = False, overwrite: str = "false"
    ) -> None:
        written = b""
        while piece := data.read(100):
            written += piece
        if append:
            self.files[path] = (self.files[path] or b"") + written
        else:
            self.add(path, written)

    def _status(self, path: str) -> dict[str, Any]:
        data = self.files[path]
        return self.attributes.get(path, {"owner": "root", "group": "g", "permission": "755"}) | {
            "type": "DIRECTORY" if data is None else "FILE",
            "pathSuffix": posixpath.basename(path),
            "length": len(data or b""),
            "blockSize": 100,
            "childrenNum": len(self._names(path)) if data is None else 0,
        }

    def _names(self, folder: str) -> list[str]:
        return sorted(p for p in self.files if p != "/" and posixpath.dirname(p) == folder)

    def _below(self, path: str) -> list[str]:
        return [p for p in self.files if p == path or p.startswith(f"{path.rstrip('/')}/")]

    def _getfilestatus(self, path: str) -> dict[str, Any]:
        return {"FileStatus": self._status(path)}

    def _liststatus(self, path: str) -> dict[str, Any]:
        return {"FileStatuses": {"FileStatus": [self._status(p) for p in self._names(path)]}}

    def _getcontentsummary(self, path: str) -> dict[str, Any]:
        every = [self.files[p] for p in self._below(path)]
        length = sum(len(data) for data in every if data is not None)
        counts = {"directoryCount": every.count(None), "fileCount": len(every) - every.count(None)}
        return {"ContentSummary": counts | {"length": length, "spaceConsumed": 2 * length}}

    def _getstatus(self, path: str) -> dict[str, Any]:
        return {"FsStatus": {"capacity": 10**6, "used": 5000, "remaining": 10**6 - 5000}}

    def _getfilechecksum(self, path: str) -> dict[str, Any]:
        return {"FileChecksum": {"bytes": "00" * 4, "length": 4, "algorithm": "CRC"}}

    def _getaclstatus(self, path: str) -> dict[str, Any]:
        return {"AclStatus": self._status(path) | {"stickyBit": False}}

    def _getfileblocklocations(self, path: str) -> dict[str, Any]:
        hosts = [f"h{at}" for at in range(self.attributes[path]["replication"])]
        return {"BlockLocations": {"BlockLocation": [{"hosts": hosts}]}}

    def _mkdirs(self, path: str) -> None:
        if path not in self.files:
            self.add(path, None)

    def _delete(self, path: str, recursive: str) -> dict[str, Any]:
        below = self._below(path)
        if len(below) > 1 and recursive != "true":
            raise Failed(403, "PathIsNotEmptyDirectoryException", "not empty")
        for each in below:
            del self.files[each]
        return {"boolean": bool(below)}

    def _rename(self, path: str, destination: str) -> dict[str, Any]:
        for each in self._below(path):
            new = destination + each.removeprefix(path)
            self.files[new] = self.files.pop(each)
            self.attributes[new] = self.attributes.pop(each)
        return {"boolean": True}

    def _set(self, path: str, **values: Any) -> None:
        self.attributes.setdefault(path, {}).update(values)

    _setpermission = _setowner = _set

    def _setreplication(self, path: str, replication: str) -> None:
        self._set(path, replication=int(replication))

    def _settimes(self, path: str, modificationtime: int, accesstime: int) -> None:
        self._set(path, modificationTime=modificationtime, accessTime=accesstime)

    def _truncate(self, path: str, newlength: str) -> None:
        self.files[path] = (self.files[path] or b"")[: int(newlength)]
