"""Whether compiled loops do what plain ones do, under each flow scheduler.

Random small cases (``oracles.versions``) go through both, with the bounds of arrays checked in
compiled loops.  A process of its own goes through the cases of a scheduler: if it dies, or a case
never ends, that is a case that differs, and another process goes on with the next one.
"""

from __future__ import annotations

import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.netemu.schedulers import FLOW_SCHEDULERS
from railyard.oracles.versions import CASE_S_MAX

#: Cases of all flow schedulers together, if no other number is asked for.
CASES = 100_000
CASES_QUICK = 2_000
#: A case that says nothing for so long never ends; the loops it needs may have to be compiled.
_SILENT_S_MAX = 300.0


def run(quick: bool = False, cases: int | None = None) -> list[Row]:
    """Go through so many cases, the same number for each flow scheduler."""
    each = -(-(cases or (CASES_QUICK if quick else CASES)) // len(FLOW_SCHEDULERS))
    going: dict[str, subprocess.Popen[str]] = {}
    stopped = threading.Event()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = pool.map(lambda name: _check(name, each, going, stopped), FLOW_SCHEDULERS)
        try:
            results = list(found)
        except BaseException:  # interrupted: the others are not waited for
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(going.values()):
                process.kill()
            raise
    return [
        row
        for name, each in zip(FLOW_SCHEDULERS, results, strict=True)
        for row in _rows(name, each)
    ]


def _rows(scheduler: str, results: list[dict[str, Any]]) -> list[Row]:
    wrong = [result for result in results if result["wrong"]]
    slowest = max(results, key=lambda result: result["took_s"])
    return [
        bench_row(
            f"{scheduler}: cases of {len(results)} in which the versions differ",
            len(wrong),
            reference=0,
            bound=0,
            note=f"seed {wrong[0]['seed']}: {wrong[0]['wrong'].splitlines()[0]}" if wrong else "",
        ),
        bench_row(
            f"{scheduler}: largest difference of an end, as a share",
            max(result["worst"] for result in results),
        ),
        bench_row(
            f"{scheduler}: CPU time of the slowest case",
            slowest["took_s"],
            "s",
            bound=CASE_S_MAX,
            note=f"seed {slowest['seed']}",
        ),
    ]


def _check(
    scheduler: str, cases: int, going: dict[str, subprocess.Popen[str]], stopped: threading.Event
) -> list[dict[str, Any]]:
    """What each case has come to; ``going`` has the process meanwhile."""
    results: list[dict[str, Any]] = []
    while (seed := len(results)) < cases and not stopped.is_set():
        print(f"  {scheduler}, from case {seed} of {cases} ...", file=sys.stderr)
        going[scheduler] = process = _start(scheduler, seed, cases - seed)
        how = _take_all(process, results)
        if len(results) < cases:
            lost = {"seed": len(results), "worst": math.inf, "wrong": how, "took_s": 0.0}
            results.append(lost)
    return results


def _start(scheduler: str, seed: int, cases: int) -> subprocess.Popen[str]:
    """A process that goes through so many cases."""
    command = [sys.executable, "-m", "railyard.oracles.versions"]
    return subprocess.Popen(
        [*command, scheduler, str(seed), str(cases)],
        env=os.environ | {"NUMBA_BOUNDSCHECK": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def _take_all(process: subprocess.Popen[str], results: list[dict[str, Any]]) -> str:
    """Add results until all are there or the process is lost; returns how it was lost."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    how = ""
    with process:
        output = process.stdout
        assert output is not None

        def read() -> None:
            for line in output:
                lines.put(line)
            lines.put("")

        reader = threading.Thread(target=read)
        reader.start()
        try:
            while line := lines.get(timeout=_SILENT_S_MAX):
                results.append(json.loads(line))
        except queue.Empty:
            how = f"no end after {_SILENT_S_MAX:g} s"
            process.kill()
        finally:
            reader.join()
    status = process.returncode
    if how or not status:
        return how
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
