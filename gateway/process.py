"""The gateway's process: an HTTP server in a thread beside the daemon's own loop.

Not here: what it answers (``webhdfs``, ``yarn``, ``page``).
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
import time
from pathlib import Path
from xml.sax.saxutils import escape

from aiohttp import web

from railyard.cluster.config import ClusterConfig, Daemon
from railyard.cluster.machine import keep_freed_memory
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.processes import stop_on_sigterm, user_name
from railyard.cluster.runfolder import RunFolder
from railyard.gateway.address import Known, is_loopback, known, listen, publish, url_of
from railyard.gateway.http.connections import answer
from railyard.gateway.http.guard import Access, CrossOrigin, Tokens, guard
from railyard.gateway.page.history import RunHistory, head_of
from railyard.gateway.page.live import Live
from railyard.gateway.page.viewers import PAGES, Page, Viewers
from railyard.gateway.stores import Stores
from railyard.gateway.webhdfs.operations import WebHdfs
from railyard.gateway.yarn.cluster import ClusterRest, NodeAddresses
from railyard.gateway.yarn.history import HistoryRest
from railyard.gateway.yarn.submission import Submission

#: Freed memory that is kept for the next bytes of a transfer: two of its windows.
_KEPT_BYTES = 16 * 2**20


def main(daemon: Daemon) -> None:
    """Serve HTTP until it is stopped, at the port where an earlier gateway of the cluster was."""
    keep_freed_memory(_KEPT_BYTES)
    folder, config = daemon.folder, daemon.config
    earlier = known(folder)
    port = (config.http or 0) if earlier is None else int(earlier.url.rsplit(":", 1)[1])
    listening = listen(config.http_host, port)
    transport = Transport.of(daemon)
    stop_on_sigterm(transport.reactor)
    transport.server("gateway")  # says who it is, as each daemon does
    url = url_of(listening)
    new_token = secrets.token_urlsafe(24) if earlier is None else earlier.token
    token = "" if is_loopback(listening) else new_token
    access = Access(token, Tokens(url.removeprefix("http://"), token))
    write_client_files(folder.client_files, url, access)
    publish(folder, Known(url, token))
    server = Server(folder, config, listening, access)
    server.start()
    daemon.ready()
    transport.reactor.run()
    server.stop()
    transport.close()


class Server:
    """The HTTP server, with an event loop in a thread of its own."""

    def __init__(
        self, folder: RunFolder, config: ClusterConfig, listening: socket.socket, access: Access
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="http", daemon=True)
        self._stores = stores = Stores(folder, config)
        head = head_of(config, live=True, begun_ms=int(folder.made_s * 1000))
        viewers = Viewers(RunHistory(head))
        self._live = Live(folder, config, viewers, self._loop)
        nodes = NodeAddresses(config.topology, listening)
        others = CrossOrigin(config.http_origins)
        app = web.Application(middlewares=[guard(access, PAGES, others)])
        app.on_response_prepare.extend((_sign, others.sign))
        for part in (
            WebHdfs(stores, folder, config, access.tokens),
            Submission(stores, folder, config),
            ClusterRest(stores, folder, nodes),
            HistoryRest(stores, folder, config.topology.scale, nodes.of_nodes),
            Page(viewers, folder.path / "attempts"),
        ):
            part.add_to(app)
        self._runner = web.AppRunner(app)
        answering = answer(self._runner, [listening, *nodes.sockets])
        self._listening = self._loop.run_until_complete(answering)

    def start(self) -> None:
        self._thread.start()
        self._live.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._live.stop()
        for listening in self._listening:
            listening.close()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()
        self._stores.close()


async def _sign(_: web.Request, response: web.StreamResponse) -> None:
    """Say what answers, not which versions of what it is made of."""
    response.headers["Server"] = "Railyard"


def write_client_files(folder: Path, url: str, access: Access) -> None:
    """Write the files by which Hadoop's clients find the gateway to a folder, which is made.

    They are for HADOOP_CONF_DIR and HDFSCLI_CONFIG; only their owner can read them.  Where a token
    is needed, HdfsCLI has a delegation token, and the command ``hadoop`` reads the file ``token``.
    """
    folder.mkdir(exist_ok=True)
    address = url.removeprefix("http://")
    files = {
        "core-site.xml": _xml({"fs.defaultFS": f"webhdfs://{address}"}),
        "yarn-site.xml": _xml(
            {"yarn.resourcemanager.webapp.address": address, "yarn.web-proxy.address": address}
        ),
        "mapred-site.xml": _xml({"mapreduce.jobhistory.webapp.address": address}),
        "hdfscli.cfg": f"[global]\ndefault.alias = railyard\n\n[railyard.alias]\nurl = {url}\n",
    }
    if access.token:
        issued = access.tokens.issue(user_name(), user_name(), int(time.time() * 1000))
        files["hdfscli.cfg"] += f"client = TokenClient\ntoken = {issued}\n"
        files["token"] = access.token
    else:
        files["hdfscli.cfg"] += f"user = {user_name()}\n"
    for name, text in files.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text, encoding="utf-8")


def _xml(properties: dict[str, str]) -> str:
    lines = [
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    return "\n".join(['<?xml version="1.0"?>', "<configuration>", *lines, "</configuration>", ""])
