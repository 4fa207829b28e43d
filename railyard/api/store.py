"""``railyard://``: the block store for pandas, dask and all that opens URLs with fsspec.

    pd.read_parquet("railyard:///in/trips.parquet")               the cluster that is up
    pd.read_parquet("railyard://c-dm7zomey/in/trips.parquet")     the one whose run folder that is

It is fsspec's own client of WebHDFS, which finds the gateway by itself.  fsspec knows it by the
entry point ``fsspec.specs``; nothing of ours imports this module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from fsspec.implementations.webhdfs import WebHDFS

from railyard.cluster.errors import UsageError
from railyard.cluster.processes import user_name
from railyard.gateway.address import known_url
from railyard.runs.home import current_folder, folder_named


class _OwnPath:
    """The path within a URL; of an instance, ``UsageError`` for a URL of another cluster."""

    def __get__(self, store: RailyardFileSystem | None, _: object) -> Callable[[str], str]:
        return partial(_own_path, "" if store is None else store.cluster)


def _own_path(cluster: str, url: str) -> str:
    scheme, slashes, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if not slashes or "/" in scheme:
        return url
    if cluster and (scheme != RailyardFileSystem.protocol or host not in ("", cluster)):
        raise UsageError(f"{url}: is another store: this one is railyard://{cluster}")
    return f"{slash}{path}"


class RailyardFileSystem(WebHDFS):
    """The block store of a cluster on this machine; ``host`` is its run folder's name."""

    protocol = "railyard"
    cachable = False  # what is up may be another cluster the next time
    _strip_protocol = _OwnPath()

    def __init__(self, host: str = "", user: str | None = None, **options: Any) -> None:
        """Raises ``UsageError`` if there is no such cluster, or none is up, or has no gateway."""
        folder = folder_named(host) if host else current_folder()
        if folder is None and host:
            raise UsageError(f"railyard://{host}: no such cluster: railyard status has its name")
        if folder is None:
            raise UsageError("railyard://: no cluster is up: railyard up starts one")
        self.cluster = folder.path.name  #: which one its paths are of
        url = known_url(folder)
        if url is None:
            raise UsageError("the cluster has no gateway: start it with --http auto")
        where = urlsplit(url)
        user = user_name() if user is None else user
        super().__init__(host=where.hostname, port=where.port, user=user, **options)

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        """Rename; both may be URLs."""
        super().mv(self._strip_protocol(path1), self._strip_protocol(path2), **options)
