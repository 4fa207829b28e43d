"""The jobs that come with Railyard, by name, and the jobs in users' files."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from railyard.cluster.errors import UsageError, printable, unknown_name
from railyard.jobs.model import input_names
from railyard.jobs.package import load_job, pack_file
from railyard.jobs.plan import Plan, Request, Sample, measured_step

_SHOWN_LETTERS_MAX = 40  #: of a user's file, as the name of its job

#: {job: the file of its plan within this folder, a line about it}
_JOBS = {
    "correlation": ("correlation", "ranks rows by two columns; four single tasks"),
    "kmeans": ("kmeans", "clusters movies by their ratings, in several iterations"),
    "query": ("query", "joins two tables, adds up and ranks, as SQL in five stages"),
    "ranked-inverted-index": (
        "sequences",
        "ranks the documents of each three words, of what sequence-count wrote",
    ),
    "self-join": ("selfjoin", "joins associations of k items to candidates of k + 1"),
    "sequence-count": ("sequences", "counts three words in a row, by document"),
    "terasort": ("terasort", "sorts 100-byte records, as the sort benchmark defines it"),
    "topwords": ("wordcount", "finds the most frequent words, in three stages"),
    "wordcount": ("wordcount", "counts words; combined=false ships every single one"),
}


def find(job: str) -> Sample:
    """The sample with this name, or the job in a user's file: "my_job.py", "my_job.py:LongWords".

    Raises ``UsageError`` for an unknown name, with the nearest one, or a file that does not exist.
    """
    file, _, job_class = job.partition(":")
    if file.endswith(".py"):
        if not Path(file).is_file():
            raise UsageError(f"{file}: no such file: need a job's Python file, or a job's name")
        return user_job(Path(file), job_class)
    if job not in CATALOG:
        raise unknown_name("job", job, CATALOG)
    return CATALOG[job]


def user_job(file: Path, job_class: str = "") -> Sample:
    """A job in a user's file; its plan has one step and no check."""
    name = printable(file.stem, _SHOWN_LETTERS_MAX)

    def plan(request: Request) -> Plan:
        package = pack_file(file, job_class, request.params)
        job = load_job(package)
        stages = job.stage_specs()
        return Plan(
            steps=(measured_step(name, request.input, request, lambda _: package),),
            input=job.input,
            formats={each: job.input_format(each) for each in input_names(stages)},
            needs_input=any(stage.reads_files for stage in stages),
            reads_several=True,
        )

    return Sample(name, f"the job in {file}", plan)


def import_all() -> None:
    """Import the code of all jobs that come with Railyard, for processes that are forked."""
    for name in _JOBS:
        _plan_of(name)


def _plan_of(job: str) -> Callable[[Request], Plan]:
    module = import_module(f"{__package__}.{_JOBS[job][0]}")
    plan: Callable[[Request], Plan] = getattr(module, f"plan_{job.replace('-', '_')}")
    return plan


def _sample(name: str) -> Sample:
    """A job whose code is imported when its plan is made: all of them take 20 ms."""
    return Sample(name, _JOBS[name][1], lambda request: _plan_of(name)(request))


#: {name: job} of the jobs that come with Railyard
CATALOG = {name: _sample(name) for name in _JOBS}
