"""Hadoop's commands as people have them on their PATH, for a cluster that is up."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import requests

from railyard.cluster.runfolder import RunFolder
from railyard.gateway.address import known_url
from tests.command_line import ROOT
from tests.waiting import wait_for

COMMANDS = ROOT / "scripts" / "hadoop-commands"


class Hadoop:
    """The commands as people have them on their PATH."""

    def __init__(self, railyard):
        self.railyard = railyard
        self.folder = railyard.current()
        files = RunFolder(self.folder).client_files
        self.environment = os.environ | {
            "HADOOP_CONF_DIR": str(files),
            "HADOOP_USER_NAME": "ann",
            "PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": "",
        }

    @property
    def url(self):
        """Of the gateway: "http://127.0.0.1:PORT"."""
        return known_url(RunFolder(self.folder))

    def start(self, *words, **options):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(words, env=self.environment, **streams, **options)

    def run(self, *words, **options):
        process = self.start(*words, **options)
        out, errors = process.communicate(timeout=100)
        return process.returncode, out, errors.decode()

    def ok(self, *words, **options):
        status, out, errors = self.run(*words, **options)
        assert status == 0, errors
        return out, errors

    def kill_gateway(self):
        lines = (self.folder / "processes.jsonl").read_text().splitlines()
        [*_, gateway] = [row for row in map(json.loads, lines) if row["role"] == "Gateway"]
        os.kill(gateway["pid"], signal.SIGKILL)
        wait_for(self._answers, why="a new gateway")

    def _answers(self):
        try:
            return requests.get(f"{self.url}/cluster").ok
        except requests.ConnectionError:
            return False

    def put(self, data, path):
        process = self.start("hadoop", "fs", "-put", "-", path, stdin=subprocess.PIPE)
        process.communicate(data)
        assert process.returncode == 0

    def get(self, path):
        return self.ok("hadoop", "fs", "-cat", path)[0]
