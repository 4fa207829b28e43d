"""What a NodeManager that died has left on its nodes' disks: the map output that is whole.

An output's file has its name once it is complete, and its index has a checksum, so what an attempt
was writing when it was killed is told from what it had written.  Partitions have checksums of their
own.  They are checked here for as long as that is quick, and otherwise when they are read, as ever.

Never here: what is done about output that is lost.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import AttemptId, JobId, NodeId, is_attempt, is_job, job_of
from railyard.nodemanager.attempt.localizing import localized_folders
from railyard.nodemanager.mapoutput import MapOutput, OutputUnreadable, shuffle_folder

log = logging.getLogger(__name__)

#: So much is checked before a NodeManager registers: about a tenth of a second.
CHECKED_BYTES_MAX = 64 * 2**20


@dataclass(frozen=True)
class Leftovers:
    """What was found."""

    outputs: dict[NodeId, tuple[AttemptId, ...]]  #: {node: attempts whose output is whole there}
    jobs: tuple[JobId, ...]  #: of which there are any files


def find_leftovers(
    folder: RunFolder, nodes: Iterable[NodeId], checked_bytes: int = CHECKED_BYTES_MAX
) -> Leftovers:
    """Look what there is, and remove what no attempt has completed.

    ``checked_bytes``: of how much of it the partitions are read and checked.
    """
    outputs: dict[NodeId, tuple[AttemptId, ...]] = {}
    jobs: dict[JobId, None] = {}
    for node in nodes:
        found: list[AttemptId] = []
        for job in _jobs_in(shuffle_folder(folder, node)):
            jobs[job] = None
            for path in sorted((shuffle_folder(folder, node) / job).iterdir()):
                output = _output(path, job)
                if output is None:
                    continue
                if output.stored_bytes <= checked_bytes:
                    checked_bytes -= output.stored_bytes
                    if not _is_sound(output):
                        continue
                found.append(AttemptId(path.name))
        outputs[node] = tuple(found)
        jobs |= dict.fromkeys(_jobs_in(localized_folders(folder, node)))
    return Leftovers(outputs, tuple(jobs))


def _jobs_in(folder: Path) -> Iterator[JobId]:
    """The jobs with a folder here, sorted."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if is_job(path.name):
            yield JobId(path.name)


def _output(path: Path, job: JobId) -> MapOutput | None:
    """The output in a file; None if it is none, or its index is damaged."""
    if not is_attempt(path.name) or job_of(path.name) != job:
        _remove(path)  # an attempt was writing it
        return None
    try:
        return MapOutput(path)
    except OutputUnreadable as error:
        log.warning("%s: it counts as lost", error)
        return None


def _is_sound(output: MapOutput) -> bool:
    try:
        output.check()
    except OutputUnreadable as error:
        log.warning("%s: it counts as lost", error)
        return False
    return True


def _remove(path: Path) -> None:
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        log.warning("%s: %s", path, error.strerror)
