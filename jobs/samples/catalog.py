"""The jobs that come with Railyard, by name, and the jobs in users' files."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from railyard.cluster.errors import UsageError, printable, unknown_name
from railyard.jobs.model import input_names
from railyard.jobs.package import load_job, pack_file
from railyard.jobs.plan import Plan, Request, Sample, measured_step

#: The letters of a user's file that are shown as the name of its job.
_SHOWN_LETTERS_MAX = 40

#: Each job: a line about it, and where its plan is, "module:function" within this folder.
_JOBS = {
    "correlation": (
        "ranks rows by two columns; four single tasks",
        "correlation:plan_correlation",
    ),
    "kmeans": (
        "clusters movies by their ratings, in several iterations",
        "kmeans:plan_kmeans",
    ),
    "query": (
        "joins two tables, adds up and ranks, as SQL in five stages",
        "query:plan_query",
    ),
    "ranked-inverted-index": (
        "ranks the documents of each three words, of what sequence-count wrote",
        "sequences:plan_ranked_inverted_index",
    ),
    "self-join": (
        "joins associations of k items to candidates of k + 1",
        "selfjoin:plan_self_join",
    ),
    "sequence-count": (
        "counts three words in a row, by document",
        "sequences:plan_sequence_count",
    ),
    "terasort": (
        "sorts 100-byte records, as the sort benchmark defines it",
        "terasort:plan_terasort",
    ),
    "topwords": ("finds the most frequent words, in three stages", "wordcount:plan_topwords"),
    "wordcount": (
        "counts words; combined=false ships every single one",
        "wordcount:plan_wordcount",
    ),
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
            steps=(measured_step(name, request.input, request, package),),
            input=job.input,
            formats={each: job.input_format(each) for each in input_names(stages)},
            needs_input=any(stage.reads_files for stage in stages),
            reads_several=True,
        )

    return Sample(name, f"the job in {file}", plan)


def import_all() -> None:
    """Import the code of all jobs that come with Railyard, for processes that are forked."""
    for _, where in _JOBS.values():
        _plan_at(where)


def _plan_at(where: str) -> Callable[[Request], Plan]:
    module, _, function = where.partition(":")
    plan: Callable[[Request], Plan] = getattr(import_module(f"{__package__}.{module}"), function)
    return plan


def _sample(name: str, summary: str, where: str) -> Sample:
    """A job whose code is imported when its plan is made: all of them take 20 ms."""
    return Sample(name, summary, lambda request: _plan_at(where)(request))


#: {name: job} of the jobs that come with Railyard
CATALOG = {name: _sample(name, *entry) for name, entry in _JOBS.items()}
