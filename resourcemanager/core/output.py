"""The files of a job's output: each attempt writes its own; in the end the winners' are renamed.

OUT/_temporary/j3.r0.1/part-r-00000   what attempt 1 of reduce 0 wrote
OUT/part-r-00000                      the task's output, once the job has succeeded
OUT/_SUCCESS                          all of the job's output is there

An attempt that is not needed may outlive the commit, say one whose node was away.  The NameNode
begins no file of an attempt once ``_SUCCESS`` is there.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from railyard.cluster.ids import AttemptId, JobId, RackId
from railyard.cluster.messaging.wire import Message, Refusal
from railyard.dfs.messages.files import Gather, MoveFiles, Status
from railyard.resourcemanager.interface.events import (
    JobCommitFailed,
    JobCommitted,
    JobSubmitted,
)

SUCCESS = "_SUCCESS"
TEMPORARY = "_temporary"


@functools.lru_cache(maxsize=2**14)
def part_name(stage: str, task: int) -> str:
    """The name of the file that a task of a stage writes, such as "part-r-00000".

    Without a stage it is as Hadoop's older interface names it, such as "part-00000".
    """
    return f"part-{stage}-{task:05d}" if stage else f"part-{task:05d}"


def attempt_file(submission: JobSubmitted, attempt: AttemptId, stage: str, task: int) -> str:
    """The file that an attempt of that task writes."""
    name = part_name("" if submission.plain_names else stage, task)
    return f"{submission.output_path}/{TEMPORARY}/{attempt}/{name}"


def success_file(folder: str) -> str:
    """The file that says that all of a job's output is in that folder."""
    return f"{folder}/{SUCCESS}"


def racks_for(submission: JobSubmitted, task: int) -> tuple[tuple[RackId, ...], ...]:
    """The racks for each replica of what a task of the last stage writes."""
    if not submission.first_racks:
        return submission.output_racks
    return ((submission.first_racks[task],), *submission.output_racks[1:])


def commit_of(folder: str, winners: Sequence[AttemptId]) -> MoveFiles:
    """The request to the NameNode that makes the winners' files a job's output."""
    temporary = f"{folder}/{TEMPORARY}"
    return MoveFiles(
        gathers=(Gather(source=temporary, folders=tuple(winners), target=folder),),
        markers=(success_file(folder),),
        remove=(temporary,),
    )


def commit_refused(
    job: JobId, refused: Refusal, success: Message | Refusal | None
) -> JobCommitted | JobCommitFailed:
    """What became of a commit that the NameNode has refused, by the status of ``SUCCESS``.

    It was done if that is there: a ResourceManager that died may have asked for it before.
    """
    if isinstance(success, Status) and success.status is not None:
        return JobCommitted(job=job)
    return JobCommitFailed(job=job, reason=refused.reason)
