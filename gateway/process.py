"""The gateway's process: an HTTP server in a thread beside the daemon's own loop."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading

from aiohttp import web

from railyard.cluster.config import ClusterConfig, Daemon
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.processes.family import stop_on_sigterm
from railyard.cluster.processes.memory import keep_freed_memory
from railyard.gateway.address import (
    Known,
    is_loopback,
    known,
    listen,
    new_token,
    publish,
    url_of,
)
from railyard.gateway.clientfiles import write_client_files
from railyard.gateway.http.access import Access
from railyard.gateway.http.connections import answer
from railyard.gateway.http.crossorigin import CrossOrigin
from railyard.gateway.http.guard import guard
from railyard.gateway.http.tokens import Tokens
from railyard.gateway.page.head import head_of
from railyard.gateway.page.kept import Kept
from railyard.gateway.page.live import Live
from railyard.gateway.page.routes import PAGES, Page
from railyard.gateway.page.viewers import Viewers
from railyard.gateway.stores import Stores
from railyard.gateway.webhdfs.administration import Administration
from railyard.gateway.webhdfs.operations import WebHdfs
from railyard.gateway.yarn.history.routes import HistoryRest
from railyard.gateway.yarn.nodeaddresses import NodeAddresses
from railyard.gateway.yarn.nodes import NodeRest
from railyard.gateway.yarn.rest import ResourceManagerRest
from railyard.gateway.yarn.streaming import StreamingRest
from railyard.gateway.yarn.submission import Submission

log = logging.getLogger(__name__)

#: Freed memory that is kept for the next bytes of a transfer: two of its windows.
_KEPT_BYTES = 16 * 2**20


def main(daemon: Daemon) -> None:
    """Serve HTTP until told to stop, at the port where an earlier gateway of the cluster was."""
    keep_freed_memory(_KEPT_BYTES)
    folder, config = daemon.folder, daemon.config
    earlier = known(folder)
    port = (config.http or 0) if earlier is None else int(earlier.url.rsplit(":", 1)[1])
    listening = listen(config.http_host, port)
    transport = Transport.of(daemon)
    stop_on_sigterm(transport.reactor)
    transport.server("gateway")  # says who it is, as each daemon does
    url = url_of(listening)
    token = "" if is_loopback(listening) else new_token() if earlier is None else earlier.token
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
        self._stores = Stores(folder, config)
        viewers = Viewers(Kept(head_of(config, live=True, begun_ms=int(folder.made_s * 1000))))
        self._live = Live(folder, config, viewers, self._loop)
        nodes = NodeAddresses(config.topology, listening)
        app = application(self._stores, viewers, folder, config, access, nodes)
        self._runner = web.AppRunner(app)
        answering = answer(self._runner, [listening, *nodes.sockets])
        self._listening = self._loop.run_until_complete(answering)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()
        self._live.start()

    def stop(self) -> None:
        """Stop answering."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._live.stop()
        for listening in self._listening:
            listening.close()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()
        self._stores.close()


def application(
    stores: Stores,
    viewers: Viewers,
    folder: RunFolder,
    config: ClusterConfig,
    access: Access,
    nodes: NodeAddresses,
) -> web.Application:
    """All that the gateway answers."""
    others = CrossOrigin(config.http_origins)
    app = web.Application(middlewares=[guard(access, PAGES, others)])
    app.on_response_prepare.extend((_sign, others.sign))
    WebHdfs(stores, folder, config, access.tokens).add_to(app)
    Administration(stores, folder).add_to(app)
    streaming = StreamingRest(stores, folder, config)
    streaming.add_to(app)
    Submission(stores, folder, streaming).add_to(app)
    ResourceManagerRest(stores, folder, nodes.of_nodes).add_to(app)
    NodeRest(stores, folder, nodes).add_to(app)
    HistoryRest(stores, folder, config.topology.scale, nodes.of_nodes).add_to(app)
    Page(viewers, folder.path / "attempts").add_to(app)
    return app


async def _sign(_: web.Request, response: web.StreamResponse) -> None:
    """Say what answers, not which versions of what it is made of."""
    response.headers["Server"] = "Railyard"
