"""``hadoop jar``: a streaming job is submitted to the cluster and followed to its end.

What it says are the lines of Hadoop's log, on standard error, by which programs follow jobs.
"""

from __future__ import annotations

import os
import posixpath
import sys
import time
from pathlib import Path
from typing import Any

from railyard.cluster.errors import UsageError
from railyard.gateway.shell.addresses import STORES, local_path, uri_of
from railyard.gateway.shell.generic import Generic
from railyard.gateway.shell.jaroptions import USAGE, JarOptions, Shipped
from railyard.gateway.shell.paths import absolute, status_of
from railyard.gateway.shell.programs import check_programs
from railyard.gateway.shell.web import Failed, NoGateway, Web

_LOOK_S = 0.25
#: For how long a job is waited for whose cluster does not answer: its gateway may start anew.
_PATIENCE_S = 60.0
_STAGING = "/tmp/hadoop-yarn/staging"


def run(arguments: list[str], generic: Generic, user: str) -> int:
    """Carry out ``hadoop jar X.jar ...``; returns the exit status."""
    if not arguments or arguments[0].startswith("-"):
        print("Usage: hadoop jar JAR [options]\n" + USAGE, file=sys.stderr)
        return 1
    try:
        options = JarOptions(arguments[1:], generic)
        if options.help:
            print(USAGE)
            return 0
        check_programs(options)
        return _Submission(options, generic.connect(user)).run()
    except (UsageError, OSError) as wrong:
        _log("ERROR", "streaming.StreamJob", str(wrong))
    except Failed as failed:
        _log("ERROR", "streaming.StreamJob", f"Error Launching job : {failed}")
    print("Streaming Command Failed!", file=sys.stderr)
    return 1


class _Submission:
    """A job on its way in, with the local files that are put into the block store for it."""

    def __init__(self, options: JarOptions, web: Web) -> None:
        self._options = options
        self._web = web
        name = f"{int(time.time() * 1000)}-{os.getpid()}"
        self._staging = f"{_STAGING}/{web.user}/.staging/{name}"
        self._staged = 0  #: files, each in a folder of its own

    def run(self) -> int:
        try:
            told = self._submit()
            if self._options.background:
                self._staged = 0  # its attempts need them
                _log("INFO", "streaming.StreamJob", f"Job {told['job']} runs in the background")
                return 0
            return follow(told, self._web)
        finally:
            if self._staged:
                self._web.ask("DELETE", self._staging, "DELETE", recursive="true")

    def _submit(self) -> dict[str, Any]:
        options = self._options
        files = [self._file(shipped) for shipped in options.files]
        request = options.request | {
            "user": self._web.user,
            "input": options.inputs,
            "files": files,
            "settings": options.settings,
            "environment": options.environment,
        }
        told = self._web.own("POST", "/streaming", request)
        _log("INFO", "mapred.FileInputFormat", f"Total input files to process : {told['splits']}")
        _log("INFO", "impl.YarnClientImpl", f"Submitted application {told['application']}")
        _log("INFO", "mapreduce.Job", f"The url to track the job: {told['tracking']}")
        _log("INFO", "mapreduce.Job", f"Running job: {told['job']}")
        return told

    def _file(self, shipped: Shipped) -> dict[str, Any]:
        """A file of the block store if its name or its option says so, otherwise a local one."""
        scheme = uri_of(shipped.path).scheme
        if scheme not in STORES and not shipped.stored:
            path = self._local(Path(local_path(shipped.path)))
        else:
            path = absolute(shipped.path, self._web.user, self._web.address)
            if status_of(self._web, path) is None:
                raise UsageError(f"File {shipped.path} does not exist in the block store.")
        name = shipped.name or posixpath.basename(path)
        return {"path": path, "name": name, "unpacked": shipped.unpacked}

    def _local(self, local: Path) -> str:
        """Put a local file into the block store; returns where it is there."""
        if not local.exists():
            raise UsageError(f"File {local} does not exist, or is not readable.")
        self._staged += 1
        path = f"{self._staging}/{self._staged}/{local.resolve().name}"
        self._put(local, path)
        return path

    def _put(self, local: Path, path: str) -> None:
        if local.is_dir():
            self._web.ask("PUT", path, "MKDIRS")
            for each in sorted(local.iterdir()):
                self._put(each, posixpath.join(path, each.name))
            return
        with open(local, "rb") as file:
            self._web.write(path, file, overwrite="true")


def follow(told: dict[str, Any], web: Web) -> int:
    """Say how far a job is until it has ended; returns the exit status."""
    seen: set[str] = set()
    shown = ""
    while True:
        job = _looked(told["job"], web)
        for failure in job["failures"]:
            if failure["attempt"] not in seen:
                seen.add(failure["attempt"])
                _show_failure(failure)
        shares = int(100 * job["mapProgress"]), int(100 * job["reduceProgress"])
        progress = " map {}% reduce {}%".format(*shares)
        if progress != shown and (job["state"] == "RUNNING" or job["state"] == "SUCCEEDED"):
            shown = progress
            _log("INFO", "mapreduce.Job", progress)
        if job["state"] != "RUNNING":
            return _ended(told, job)
        time.sleep(_LOOK_S)


def _looked(name: str, web: Web) -> dict[str, Any]:
    """How a job is; a gateway or ResourceManager that is gone is waited for."""
    begun_s = time.monotonic()
    while True:
        try:
            return web.own("GET", f"/jobs/{name}")
        except (Failed, NoGateway) as error:
            passes = isinstance(error, NoGateway) or error.exception == "RetriableException"
            if not passes or time.monotonic() - begun_s > _PATIENCE_S:
                raise
        time.sleep(_LOOK_S)


def _ended(told: dict[str, Any], job: dict[str, Any]) -> int:
    name, ok = told["job"], job["state"] == "SUCCEEDED"
    if ok:
        _log("INFO", "mapreduce.Job", f"Job {name} completed successfully")
    else:
        why = f"failed with state {job['state']} due to: {job['reason']}"
        _log("INFO", "mapreduce.Job", f"Job {name} {why}")
    _log("INFO", "mapreduce.Job", "\n".join(counter_lines(job["counters"])))
    if not ok:
        _log("ERROR", "streaming.StreamJob", "Job not successful!")
        print("Streaming Command Failed!", file=sys.stderr)
        return 1
    _log("INFO", "streaming.StreamJob", f"Output directory: {told['output']}")
    return 0


def _show_failure(failure: dict[str, Any]) -> None:
    _log("INFO", "mapreduce.Job", f"Task Id : {failure['attempt']}, Status : FAILED")
    lines = [f"Error: {failure['reason']} (on {failure['node']})"]
    print("\n".join([*lines, *failure["stderr"].splitlines()]), file=sys.stderr)


def counter_lines(groups: dict[str, dict[str, int]]) -> list[str]:
    """{group: {counter: count}} as Hadoop shows it."""
    lines = [f"Counters: {sum(map(len, groups.values()))}"]
    for group, counters in groups.items():
        lines += [f"\t{group}", *(f"\t\t{name}={count}" for name, count in counters.items())]
    return lines


def _log(level: str, logger: str, message: str) -> None:
    """A line as Hadoop's log4j writes it."""
    when = time.strftime("%y/%m/%d %H:%M:%S")
    print(f"{when} {level} {logger}: {message}", file=sys.stderr, flush=True)
