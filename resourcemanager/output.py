"""Where a job's output lies: attempts write apart, and the winners are renamed in the end.

OUT/_temporary/j3.r0.1/part-r-00000   what attempt 1 of reduce 0 wrote
OUT/part-r-00000                      the task's output, once the job has succeeded
OUT/_SUCCESS                          all of the job's output is there
"""

from __future__ import annotations

from cluster.ids import AttemptId, stage_of, task_index

SUCCESS = "_SUCCESS"
TEMPORARY = "_temporary"


def part_name(attempt: AttemptId) -> str:
    """The name of the file that the attempt's task writes, such as "part-r-00000"."""
    stage = stage_of(attempt).split(".", 1)[1]
    return f"part-{stage}-{task_index(attempt):05d}"


def attempt_file(folder: str, attempt: AttemptId) -> str:
    """The file that the attempt writes."""
    return f"{folder}/{TEMPORARY}/{attempt}/{part_name(attempt)}"


def final_file(folder: str, attempt: AttemptId) -> str:
    """What ``attempt_file`` is renamed to if the attempt is its task's winner."""
    return f"{folder}/{part_name(attempt)}"
