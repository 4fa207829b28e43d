"""A cluster of real processes, from Python.

    with railyard.Cluster(topology="flat-4x4", scheduler="delay") as cluster:
        cluster.put("corpus.txt", "/corpus")
        run = cluster.run("wordcount", inputs="dfs:/corpus")

Its processes end with the ``with`` block, with ``stop``, or with this process, however that ends.
Use a cluster from one thread.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal
from weakref import finalize

import msgspec

from railyard.api import arguments
from railyard.api.arguments import AnyJob, job_word, name_and_params
from railyard.api.results import Run, run_of
from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.files import Durability
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.client import DfsClient
from railyard.gateway.address import LOOPBACK, known_url, listen
from railyard.report.pages import finish_folder
from railyard.resourcemanager.process.messages import ClusterStatus
from railyard.runs.clusters import StartedCluster, connected, own_cluster
from railyard.runs.files import copy_out, store_file, store_of
from railyard.runs.home import current_folder, stop_running
from railyard.runs.requests import RunRequest
from railyard.runs.work import SingleJob, Work, require_well, run_on, work_for
from railyard.terminal.notices import notices_to
from railyard.terminal.progress import progress_view

#: Jobs that are submitted and not yet waited for: each has a thread that follows it.
_SUBMITTED_MAX = 64


class Submitted:
    """Jobs under way on a cluster."""

    def __init__(self, name: str, future: Future[Run], notices: list[str]) -> None:
        self.name = name  #: of the workload
        self._future = future
        self._notices = notices

    @property
    def done(self) -> bool:
        """Whether they have ended, well or not."""
        return self._future.done()

    def wait(self, timeout_s: float | None = None) -> Run:
        """Wait for their end.

        Raises ``JobFailed`` if one failed, ``NotVerified`` for wrong output, ``ClusterFailed`` if
        the cluster ended, ``TimeoutError`` after ``timeout_s``.
        """
        try:
            return self._future.result(timeout_s)
        finally:
            arguments.warn(self._notices, stacklevel=3)
            self._notices.clear()

    def __repr__(self) -> str:
        return f"<Submitted {self.name}: {'ended' if self.done else 'under way'}>"


class Cluster:
    """A cluster that is started for this object; see ``Cluster.current`` for one that is up."""

    def __init__(
        self,
        topology: str | Path | None = None,
        *,
        scheduler: str = "fair",
        flow_scheduler: str | None = None,
        network: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        seed: int = 1,
        transport: Literal["ipc", "tcp"] = "ipc",
        durability: Durability = "safe",
        http: Literal["auto", "none"] | int = "auto",
    ) -> None:
        """Check what is asked for; ``start``, or a ``with`` block, starts it.

        The arguments are those of ``railyard.simulate``; ``transport``, ``durability`` and ``http``
        are those of ``railyard up``.  Raises ``UsageError`` for what does not exist or makes no
        sense.
        """
        options = arguments.options_of(locals())
        with arguments.notices_as_warnings(progress=False):
            request = arguments.request_of((), **options)
            self.config: ClusterConfig = msgspec.structs.replace(request.config(), http=_port(http))
        self._folder: RunFolder | None = None
        self._is_own = True
        self._open = ExitStack()
        self._submitted: list[Submitted] = []
        finalize(self, self._open.close)

    @classmethod
    def current(cls) -> Cluster:
        """The cluster that ``railyard up`` started; leaving a ``with`` block does not stop it.

        Raises ``UsageError`` if none is up.
        """
        folder = current_folder()
        if folder is None:
            raise UsageError("no cluster is up: railyard up starts one, or use Cluster()")
        cluster = cls.__new__(cls)
        cluster.config = ClusterConfig.load(folder)
        cluster._folder, cluster._is_own = folder, False
        cluster._open, cluster._submitted = ExitStack(), []
        cluster._make_ready()
        finalize(cluster, cluster._open.close)
        return cluster

    def start(self) -> Cluster:
        """Start its processes, and wait until they are ready; ``ClusterFailed`` if they are not."""
        if self._folder is not None:
            raise UsageError("start: the cluster runs already")
        with ExitStack() as starting:
            started: StartedCluster = starting.enter_context(own_cluster(self.config))
            started.wait_until_ready()
            self._open.push(starting.pop_all())
        self._folder = started.folder
        self._make_ready()
        return self

    def stop(self) -> None:
        """End the cluster, with all jobs and files on it; does nothing if it has ended."""
        folder, self._folder = self._folder, None
        if folder is not None and not self._is_own:
            stop_running(folder)
        self._open.close()
        if folder is not None:
            self._threads.shutdown(cancel_futures=True)

    # Jobs ------------------------------------------------------------------------------------
    def run(
        self,
        *jobs: AnyJob,
        inputs: arguments.AnyInput = (),
        output: str | None = None,
        size: str | int | None = None,
        reduces: int | None = None,
        params: Mapping[str, Any] | None = None,
        user: str | None = None,
        queue: str = "default",
        seed: int | None = None,
        get: str | Path | None = None,
        out: str | Path | None = None,
        progress: bool = False,
    ) -> Run:
        """Run jobs to their end and check the output; the arguments are those of ``submit``.

        Raises as ``submit`` and ``Submitted.wait`` do.
        """
        options = arguments.options_of(locals())
        return self.submit(*jobs, progress=progress, **options).wait()

    def submit(
        self,
        *jobs: AnyJob,
        inputs: arguments.AnyInput = (),
        output: str | None = None,
        size: str | int | None = None,
        reduces: int | None = None,
        params: Mapping[str, Any] | None = None,
        user: str | None = None,
        queue: str = "default",
        seed: int | None = None,
        get: str | Path | None = None,
        out: str | Path | None = None,
        progress: bool = False,
    ) -> Submitted:
        """Have jobs run while this program goes on.

        - ``jobs``: as for ``railyard.simulate``, but nothing that only the simulator has.
        - ``inputs``: a local file, folder or pattern, several of these, "dfs:/PATH", or {name of an
          input: any of these}.
        - ``output``: folder of the block store for the output of a single job.
        - ``size``: of generated input, "10GB" or bytes of the model; default: 10 GB.
        - ``params``: parameters of the job, such as {"min_letters": 12}.
        - ``get``: a new local folder, to which the output of a single job is copied.
        - ``out``: a new folder for all files of the run, which its timeline needs.

        Raises ``UsageError`` for what does not exist or makes no sense.
        """
        options = arguments.options_of(locals())
        folder = self._running()
        with arguments.notices_as_warnings(progress=progress):
            words, own = self._words(jobs)
            options["params"] = own | dict(params or {})
            request = arguments.request_of(words, **options)
            work = work_for(request, self.config, folder)
        notices: list[str] = []
        future = self._threads.submit(self._carry_out, work, request, notices, progress)
        submitted = Submitted(work.name, future, notices)
        self._submitted.append(submitted)
        return submitted

    def wait(self, timeout_s: float | None = None) -> list[Run]:
        """Wait for all jobs that were submitted and not yet waited for here, in their order.

        Raises as ``Submitted.wait`` does; ``timeout_s`` is for each.
        """
        submitted, self._submitted = self._submitted, []
        return [one.wait(timeout_s) for one in submitted]

    def status(self) -> ClusterStatus:
        """Its nodes with their slots and attempts, and its jobs with their progress."""
        with connected(self._running(), self.config) as session:
            return session.status()

    # Addresses -------------------------------------------------------------------------------
    @property
    def url(self) -> str:
        """Of its gateway, such as "http://127.0.0.1:43071"; ``UsageError`` if it has none."""
        url = known_url(self._running())
        if url is None:
            raise UsageError('the cluster has no gateway: need http="auto"')
        return url

    @property
    def webhdfs_url(self) -> str:
        """Of the block store for clients of HDFS: that of the gateway with "/webhdfs/v1"."""
        return f"{self.url}/webhdfs/v1"

    @property
    def store_url(self) -> str:
        """Of the block store for pandas, dask and fsspec, such as "railyard://c-dm7zomey".

        Append a path: f"{cluster.store_url}/in/trips.csv".
        """
        return f"railyard://{self._running().path.name}"

    # Files -----------------------------------------------------------------------------------
    def put(self, local: str | Path, path: str, *, overwrite: bool = False) -> int:
        """Store a local file in the block store, as PATH; returns its size in real bytes.

        Raises ``UsageError`` if it cannot be read, or if PATH exists, unless ``overwrite``.
        """
        file = Path(local).absolute()
        if not file.is_file():
            raise UsageError(f"{local}: no such file: need one to store")
        with connected(self._running(), self.config) as session:
            return store_file(session, str(file), path, overwrite=overwrite).stored_length

    def get(self, path: str, local: str | Path) -> int:
        """Copy a file or folder of the block store to a new local path; returns its real bytes."""
        with self._store() as store:
            return copy_out(store, path, Path(local))

    def read(self, path: str) -> bytes:
        """The bytes of a file of the block store, or of all files of a folder, one by one."""
        with self._store() as store:
            files = [entry.path for entry in store.list(path) if not entry.folder]
            return b"".join(bytes(piece) for file in files for piece in store.read(file))

    def files(self, path: str = "/") -> list[str]:
        """The paths of what is in a folder of the block store."""
        with self._store() as store:
            return [entry.path for entry in store.list(path)]

    # -----------------------------------------------------------------------------------------
    def _make_ready(self) -> None:
        """Prepare for jobs; closed before the cluster is stopped."""
        scratch = tempfile.TemporaryDirectory(prefix="railyard-")
        self._sources = Path(self._open.enter_context(scratch))
        self._threads = ThreadPoolExecutor(_SUBMITTED_MAX, "railyard-job")

    def _words(self, jobs: Sequence[AnyJob]) -> tuple[tuple[str, ...], dict[str, str]]:
        """The words for jobs; and the parameters of a single one, which can have any."""
        if not jobs:
            raise UsageError("jobs: need at least one, such as terasort")
        if len(jobs) == 1:
            name, params = name_and_params(jobs[0], self._sources)
            return (name,), params
        return tuple(job_word(job, self._sources) for job in jobs), {}

    def _carry_out(
        self, work: Work, request: RunRequest, notices: list[str], progress: bool
    ) -> Run:
        """In a thread of its own, with links of its own."""
        with (
            notices_to(notices.append, wants_progress=progress),
            progress_view() as view,
            connected(self._running(), self.config) as session,
        ):
            ran = run_on(session, work, view, request.results)
        if request.results is not None and ran.unwritten is None:
            finish_folder(request.results, ran.summary, self.config.topology)
        require_well(ran, work.name)
        output = work.outputs[-1] if isinstance(work, SingleJob) else None
        if "figures_error" in ran.summary:
            notices.append(ran.summary["figures_error"])
        return run_of(ran.summary, request.results, output)

    @contextmanager
    def _store(self) -> Iterator[DfsClient]:
        with connected(self._running(), self.config) as session, store_of(session) as store:
            yield store

    def _running(self) -> RunFolder:
        if self._folder is None:
            raise UsageError("the cluster does not run: need start(), or a with block")
        return self._folder

    def __enter__(self) -> Cluster:
        return self if self._folder is not None else self.start()

    def __exit__(self, *_: object) -> None:
        if self._is_own:
            self.stop()
        else:
            self._folder = None
            self._open.close()

    def __repr__(self) -> str:
        state = "runs" if self._folder is not None else "does not run"
        name, scheduler = self.config.topology.name, self.config.scheduler
        return f"<Cluster {name} with {scheduler}: {state}>"


def _port(http: object) -> int | None:
    """The gateway's port: 0 is any that is free; None: no gateway."""
    if http in ("auto", "none"):
        return 0 if http == "auto" else None
    if isinstance(http, bool) or not isinstance(http, int) or not 0 < http < 2**16:
        raise UsageError(f'http = {http!r}: need "auto", "none" or a port, 1 to 65535')
    listen(LOOPBACK, http).close()  # says so at once if it is taken
    return http
