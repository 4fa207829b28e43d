"""What a program finds in its environment: ids as Hadoop writes them, its task and its input."""

from __future__ import annotations

from railyard.cluster.ids import AttemptId, job_of, stage_of
from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.streaming.settings import in_environment
from railyard.jobs.streaming.specification import Streaming


def hadoop_job_id(begun_ms: int, job: str) -> str:
    """The id of job "j12" of a cluster that began then: "job_1795444939124_0012"."""
    return f"job_{begun_ms}_{int(job[1:]):04d}"


def hadoop_attempt_id(begun_ms: int, attempt: AttemptId) -> str:
    """The id of attempt "j12.m3.0": "attempt_1795444939124_0012_m_000003_0"."""
    stage = stage_of(attempt)
    task, number = attempt.removeprefix(stage).split(".")
    job = hadoop_job_id(begun_ms, job_of(attempt)).removeprefix("job_")
    return f"attempt_{job}_{stage.rpartition('.')[2]}_{int(task):06d}_{number}"


def environment_of(specification: Streaming, attempt: AttemptId, task: TaskSpec) -> dict[str, str]:
    """The variables that a task's program gets beside those of its NodeManager.

    Those of -cmdenv come last, so they win; those of mapreduce.map.env come first.
    """
    begun_ms = specification.begun_ms
    attempt_id = hadoop_attempt_id(begun_ms, attempt)
    task_id = attempt_id.rpartition("_")[0].replace("attempt_", "task_", 1)
    settings = dict(specification.settings)
    settings |= {
        "mapreduce.job.id": hadoop_job_id(begun_ms, job_of(attempt)),
        "mapreduce.task.id": task_id,
        "mapreduce.task.attempt.id": attempt_id,
        "mapreduce.task.partition": str(task.index),
        "mapreduce.task.ismap": str(not task.reads).lower(),
        "mapreduce.job.application.attempt.id": "1",
        "mapreduce.task.output.dir": specification.uri(task.output_path.rpartition("/")[0]),
    }
    if task.splits:
        split = task.splits[0]
        settings["mapreduce.map.input.file"] = specification.uri(split.path)
        settings["mapreduce.map.input.start"] = str(split.stored_offset)
        settings["mapreduce.map.input.length"] = str(split.stored_length)
    return (
        (specification.reduce_variables if task.reads else specification.map_variables)
        | in_environment(settings, specification.setting_letters_max)
        | specification.environment
    )
