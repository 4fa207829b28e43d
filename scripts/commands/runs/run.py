"""``railyard run``: a job from its input to its checked output."""

from __future__ import annotations

from functools import partial

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import RailyardError, Refused, UsageError
from railyard.cluster.files.runfolder import RunFolder
from railyard.dfs.client import DfsClient
from railyard.jobs.mixes.given import STORE_PREFIX
from railyard.jobs.mixes.mixes import Defaults, is_single, read_mix, user_files
from railyard.resourcemanager.schedulers import recipe_named
from railyard.scripts.clusters.folders import current_folder
from railyard.scripts.clusters.memory import require_memory
from railyard.scripts.clusters.session import connected
from railyard.scripts.results.outputfile import say_written, write_json
from railyard.scripts.results.summary import require_figures
from railyard.scripts.results.trust import require_trusted
from railyard.scripts.running.request import RunRequest, incoming_bytes, prepare
from railyard.scripts.running.room import require_room, require_room_for_mix
from railyard.scripts.running.trial import survived
from railyard.scripts.running.work import SeveralJobs, SingleJob, Work, run_on, session_for
from railyard.scripts.running.workplace import Submitter
from railyard.scripts.terminal.progress import progress_view
from railyard.scripts.terminal.request import command


class NotVerified(RailyardError):
    """A job's output is not what it should be."""


@command(RunRequest)
def run(request: RunRequest) -> None:
    """Run a job, or several at once, and check the output.

    JOB is terasort, wordcount, topwords, query, or a Python file of yours: ./my_job.py, or
    ./my_job.py:MyJob if it has several.  It runs on the cluster that is up, or else on one that is
    started for it and removed afterwards.

    Of several jobs more can be said, each for itself: terasort,size=2GB,submit=5s,times=3 (also
    reduces, user, queue, param.NAME).  mix,jobs=20,sizes=1GB+2GB,window=30s draws jobs by the seed
    (also of=terasort+wordcount, users, queues, reduces), and a file jobs.toml has a table [[job]]
    for each.  Schedulers that plan ahead get forecasts of them, with their measured sizes:
    recurring=0.5 predicts half of them, size_error=0.1 wrongly; inputs=own makes one for each.
    skew=1.2 spreads generated input over the racks by Zipf's law, skew_ratio=8 so that the rack
    with most has 8 times as much as that with least.  docs/workloads.md has all of these words.
    """
    up = current_folder()
    config = request.config() if up is None else _config_of(up, request)
    seed = config.seed if request.seed is None else request.seed
    work = (_single if is_single(request.jobs) else _several)(request, config, seed, up)
    with progress_view() as view, session_for(up, config, view) as session:
        ran = run_on(session, work, view, request.results)
    work.show(ran.summary, config.topology)
    if request.json_file is not None:
        write_json(ran.summary, request.json_file)
    if request.results is not None and ran.unwritten is None:
        from railyard.scripts.report.runpage import finish_folder

        finish_folder(request.results, ran.summary, config.topology)
    say_written(request.results, request.json_file)
    if ran.unwritten is not None:
        raise ran.unwritten
    if ran.outcome.failure is not None:
        raise ran.outcome.failure
    if ran.outcome.verified is False:
        raise NotVerified(f"the output of {work.name} is not right")
    if request.strict:
        require_trusted([ran.summary])
    require_figures([ran.summary])


def _config_of(up: RunFolder, request: RunRequest) -> ClusterConfig:
    """That of the cluster that is up; ``UsageError`` if another one was asked for."""
    config = ClusterConfig.load(up)
    request.require_like(config)
    return config


def _single(request: RunRequest, config: ClusterConfig, seed: int, up: RunFolder | None) -> Work:
    topology = config.topology
    require_room(up, topology, request.jobs[0], *[incoming_bytes(request, topology)] * 2)
    blocks_of = None if up is None else partial(_blocks_of, up, config)
    plan = partial(prepare, request, topology, seed, blocks_of)
    prepared = survived(user_files(request.jobs), plan)
    reserves = recipe_named(config.scheduler).reserves
    require_memory(topology, prepared.name, prepared.tasks, up, reserves=reserves)
    return SingleJob(prepared, Submitter(request.user, request.queue), request.fetch_to)


def _blocks_of(up: RunFolder, config: ClusterConfig, path: str) -> int:
    """Number of blocks of a file or folder in the store of the cluster that is up."""
    with connected(up, config) as session:
        try:
            return DfsClient(session.transport, config.topology).usage(path).blocks
        except Refused as refused:
            raise UsageError(f"input {STORE_PREFIX}{path}: {refused}") from None


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
    blocks_of = None if up is None else partial(_blocks_of, up, config)
    return SeveralJobs(mix, config.topology, seed, blocks_of)
