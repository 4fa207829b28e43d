"""Many runs at once: over this machine's cores, or over a cluster of Dask's or Ray's.

A run is sent to its worker pickled, so it consists of data and a module's function; results come
back in the order of the runs.  Runs share nothing, so where they ran and how many at a time
changes no result.
"""

from __future__ import annotations

import contextlib
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from railyard.cluster.errors import UsageError
from railyard.cluster.processes import die_with_parent
from railyard.runs.requests import Workers
from railyard.terminal import interrupts
from railyard.terminal.notices import steps_done

T = TypeVar("T")
R = TypeVar("R")


def sweep(
    run: Callable[[T], R],
    items: Sequence[T],
    *,
    on: Workers | None = None,
    workers: int | None = None,
) -> list[R]:
    """Do ``run(item)`` for all, on this machine unless ``on`` says where.

    Raises ``UsageError`` for a library that is missing and for an address that nobody answers at;
    whatever a run raises.
    """
    if on is None and (len(items) == 1 or workers == 1):
        with steps_done("simulating", "simulated", len(items), "run") as advance:
            return [_counted(run(item), advance) for item in items]
    from joblib import Parallel, delayed

    progress = steps_done("simulating", "simulated", len(items), "run")
    with _backend(on), progress as advance, warnings.catch_warnings():
        # joblib warns when it replaces a worker that has grown, which users need not know
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        found: dict[int, R] = {}
        parallel = Parallel(n_jobs=workers or -1, return_as="generator_unordered", batch_size=1)
        try:
            here = os.getpid()
            made = parallel(delayed(_one)(run, n, item, here) for n, item in enumerate(items))
            for number, result in made:
                interrupts.check()
                found[number] = result
                advance()
        except BaseException:
            _kill_local_workers()
            raise
    return [found[number] for number in range(len(items))]


def _one(run: Callable[[T], R], number: int, item: T, asked_by: int) -> tuple[int, R]:
    if os.getpid() != asked_by:
        # Ctrl-C on a terminal reaches all processes of a command; only its first one acts on it.
        with contextlib.suppress(ValueError):  # in a thread, as Dask's workers have them
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if os.getppid() == asked_by:
            die_with_parent(asked_by)
    return number, run(item)


def _counted(result: R, advance: Callable[[], None]) -> R:
    interrupts.check()
    advance()
    return result


@contextmanager
def _backend(on: Workers | None) -> Iterator[None]:
    """Have joblib send its work to ``on`` while the block runs."""
    if on is None:
        yield
        return
    from joblib import parallel_config

    connect = _connect_dask if on.kind == "dask" else _connect_ray
    with connect(on.address), parallel_config(backend=on.kind):
        yield


@contextmanager
def _connect_dask(address: str) -> Iterator[None]:
    try:
        from distributed import Client as DaskClient
    except ImportError:
        raise UsageError('--on dask: needs Dask: pip install "dask[distributed]"') from None
    try:
        connect: Any = DaskClient  # has no types
        client = connect(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise UsageError(f"--on dask:{address}: nobody answers there: {error}") from None
    with client:
        yield


@contextmanager
def _connect_ray(address: str) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise UsageError("--on ray: needs Ray: pip install ray") from None
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        raise UsageError(f"--on ray:{address}: nobody answers there: {error}") from None
    register_ray()
    try:
        yield
    finally:
        ray.shutdown()


def _kill_local_workers() -> None:
    """End joblib's processes on this machine, which would finish what they do otherwise."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended by itself
            if any("popen_loky" in word for word in child.cmdline()):
                child.kill()
