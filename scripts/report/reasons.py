"""Why a run's jobs and tasks went where they did, for its page: texts, or the command for them.

A text is what ``railyard explain`` prints.  A page has so many that it stays small and is written
soon: those of the jobs, then of the tasks with the longest attempts.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from railyard.cluster.errors import RailyardError
from railyard.cluster.ids import AttemptId, task_of
from railyard.resourcemanager.driving.explaining.several import explain_several
from railyard.scripts.report.results import Results
from railyard.scripts.results.explained import lines_of
from railyard.scripts.results.folder import EVENTS, PAGE

#: Explained jobs and tasks of a page, and letters of their texts.
TEXTS_MAX = 200
_LETTERS_MAX = 120_000
#: Events times what is explained: about a second.  Logs that are larger are not even replayed.
WORK_MAX = 500_000
_LOG_BYTES_MAX = 4 * 10**6


def reasons(results: Results, work_max: int = WORK_MAX) -> dict[str, Any]:
    """The command that explains, which an id follows, and texts by the ids of jobs and tasks.

    ``begin_s``: what a text calls the time that pictures call 0 s.
    """
    folder = results.folder
    assert folder is not None, "a page is in its run's folder"
    return {
        "command": _command(folder),
        "begin_s": round(results.begin_s, 3),
        "texts": _texts(folder / EVENTS, results, work_max),
    }


def reasons_elsewhere(results: Results) -> dict[str, Any]:
    """The same for a run with a page of its own, which has the texts."""
    folder = results.folder
    assert folder is not None, "it was written with files"
    page = f"{folder.name}/{PAGE}"
    return {"command": _command(folder), "begin_s": 0.0, "texts": {}, "page": page}


def _command(folder: Path) -> str:
    return f"railyard explain {shlex.quote(str(folder))}"


def _texts(events: Path, results: Results, work_max: int) -> dict[str, str]:
    if not events.is_file() or events.stat().st_size > _LOG_BYTES_MAX:
        return {}
    with events.open("rb") as file:
        count = sum(1 for _ in file)
    most = min(TEXTS_MAX, work_max // max(1, count))
    try:
        found = explain_several(events, _wanted(results)[:most])
    except RailyardError:
        return {}  # the command says what is wrong
    texts, letters = {}, 0
    for what, explanation in found.items():
        text = "\n".join(lines_of(explanation))
        letters += len(text)
        if letters > _LETTERS_MAX:
            break
        texts[what] = text
    return texts


def _wanted(results: Results) -> list[str]:
    """Jobs, then tasks, those with the longest attempts first."""
    jobs = [job["id"] for job in results.summary["jobs"]]
    held = sorted(results.held, key=lambda one: one.begin_s - one.end_s)
    return list(dict.fromkeys([*jobs, *(task_of(AttemptId(one.attempt)) for one in held)]))
