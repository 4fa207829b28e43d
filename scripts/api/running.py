"""Runs on a cluster of real processes: what is to be done, done, and whether it went well."""

from __future__ import annotations

from functools import partial

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import RailyardError, UsageError
from railyard.cluster.files.runfolder import RunFolder
from railyard.jobs.mixes.mixes import Defaults, is_single, read_mix, user_files
from railyard.resourcemanager.schedulers import recipe_named
from railyard.scripts.clusters.memory import require_memory
from railyard.scripts.running.fetched import UpStore
from railyard.scripts.running.request import RunRequest, incoming_bytes, prepare
from railyard.scripts.running.room import require_room, require_room_for_mix
from railyard.scripts.running.trial import survived
from railyard.scripts.running.work import Ran, SeveralJobs, SingleJob, Work
from railyard.scripts.running.workplace import Submitter


class NotVerified(RailyardError):
    """A job's output is not what it should be."""


def work_for(request: RunRequest, config: ClusterConfig, up: RunFolder | None) -> Work:
    """What is to be done on a cluster; ``up`` is the one that runs, None if one is to be started.

    Raises ``UsageError`` for a request that makes no sense, before anything is done.
    """
    seed = config.seed if request.seed is None else request.seed
    make = _single if is_single(request.jobs) else _several
    return make(request, config, seed, up)


def require_well(ran: Ran, name: str) -> None:
    """Raise what went wrong, if anything did: files not written, a job failed, wrong output."""
    if ran.unwritten is not None:
        raise ran.unwritten
    if ran.outcome.failure is not None:
        raise ran.outcome.failure
    if ran.outcome.verified is False:
        raise NotVerified(f"the output of {name} is not right")


def _single(request: RunRequest, config: ClusterConfig, seed: int, up: RunFolder | None) -> Work:
    topology = config.topology
    require_room(up, topology, request.jobs[0], *[incoming_bytes(request, topology)] * 2)
    store = None if up is None else UpStore(up, config)
    plan = partial(prepare, request, topology, seed, store)
    prepared = survived(user_files(request.jobs), plan)
    reserves = recipe_named(config.scheduler).reserves
    require_memory(topology, prepared.name, prepared.tasks, up, reserves=reserves)
    return SingleJob(prepared, Submitter(request.user, request.queue), request.fetch_to)


def _several(request: RunRequest, config: ClusterConfig, seed: int, up: RunFolder | None) -> Work:
    single = {"--output": request.output, "--get": request.fetch_to}
    for name, value in single.items():
        if value:
            raise UsageError(f"{name}: is for a single job: need one JOB, and nothing else")
    defaults = Defaults(
        size_bytes=request.input_bytes,
        reduces=request.reduces,
        user=request.user,
        queue=request.queue,
        params=request.params,
        inputs=request.inputs,
    )
    mix = read_mix(request.jobs, defaults, seed)
    reserves = recipe_named(config.scheduler).reserves
    require_room_for_mix(up, mix, config.topology, reserves=reserves)
    store = None if up is None else UpStore(up, config)
    return SeveralJobs(mix, config.topology, seed, store)
