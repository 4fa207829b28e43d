"""``railyard run``: a job from its input to its checked output."""

from __future__ import annotations

from railyard.cluster.config import ClusterConfig
from railyard.cluster.files.runfolder import RunFolder
from railyard.scripts.api.running import require_well, work_for
from railyard.scripts.clusters.folders import current_folder
from railyard.scripts.results.outputfile import say_written, write_json
from railyard.scripts.results.summary import require_figures
from railyard.scripts.results.trust import require_trusted
from railyard.scripts.running.request import RunRequest
from railyard.scripts.running.work import run_on, session_for
from railyard.scripts.terminal.progress import progress_view
from railyard.scripts.terminal.request import command


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
    work = work_for(request, config, up)
    with progress_view() as view, session_for(up, config, view) as session:
        ran = run_on(session, work, view, request.results)
    work.show(ran.summary, config.topology)
    if request.json_file is not None:
        write_json(ran.summary, request.json_file)
    if request.results is not None and ran.unwritten is None:
        from railyard.scripts.report.runpage import finish_folder

        finish_folder(request.results, ran.summary, config.topology)
    say_written(request.results, request.json_file)
    require_well(ran, work.name)
    if request.strict:
        require_trusted([ran.summary])
    require_figures([ran.summary])


def _config_of(up: RunFolder, request: RunRequest) -> ClusterConfig:
    """That of the cluster that is up; ``UsageError`` if another one was asked for."""
    config = ClusterConfig.load(up)
    request.require_like(config)
    return config
