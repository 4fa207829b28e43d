"""The public traces, where there are any."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from railyard.jobs.workloads.catalog import FAMILIES

_BESIDE = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def public_trace():
    """A public trace by its path below the folder of traces; skips if it is not there."""

    def find(name: str) -> Path:
        path = Path(os.environ.get("RAILYARD_TRACES", _BESIDE)) / name
        if not path.is_file():
            pytest.skip(f"{path} is not there: set RAILYARD_TRACES to the folder of traces")
        return path

    return find


# Files for the workloads that read one: small ones of our own.


SWIM_LINES = [(1000 * at, 0 if at % 4 else 3 * 10**9 * at, 10**6 * at) for at in range(1, 61)]


@pytest.fixture
def swim_file(tmp_path):
    """60 jobs, 10 s apart: every fourth one shuffles."""
    path = tmp_path / "trace.tsv"
    lines = [
        f"job{at}\t{5 + 10 * at}\t10\t{put_in}\t{shuffle}\t{out}"
        for at, (put_in, shuffle, out) in enumerate(SWIM_LINES)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def fork_join() -> dict:
    """A workflow: a splits; b0 to b2 work, each with the same database; c joins."""
    sizes = {"in": 500_000_000, "nt": 5_000_000_000, "z": 100}
    sizes |= {f"x{at}": 10 * (at + 1) for at in range(3)} | {f"y{at}": 5 + at for at in range(3)}
    middle = [f"b{at}" for at in range(3)]
    tasks = [
        _task("a", [], middle, ["in"], ["x0", "x1", "x2"]),
        *(_task(b, ["a"], ["c"], [f"x{b[1]}", "nt"], [f"y{b[1]}"]) for b in middle),
        _task("c", middle, [], ["y0", "y1", "y2"], ["z"]),
    ]
    return {
        "name": "fj",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {
                "tasks": tasks,
                "files": [{"id": name, "sizeInBytes": size} for name, size in sizes.items()],
            },
            "execution": {
                "makespanInSeconds": 7.5,
                "executedAt": "2026-01-01T00:00:00Z",
                "tasks": [{"id": t["id"], "runtimeInSeconds": 1.5} for t in tasks],
            },
        },
    }


def _task(name, parents, children, inputs, outputs):
    return {
        "name": f"{name}_name",
        "id": name,
        "parents": parents,
        "children": children,
        "inputFiles": inputs,
        "outputFiles": outputs,
    }


@pytest.fixture
def workflow():
    """A workflow to be changed by a test."""
    return fork_join()


@pytest.fixture
def workflow_file(tmp_path):
    path = tmp_path / "fj.json"
    path.write_text(json.dumps(fork_join(), indent=1))
    return path


@pytest.fixture
def coflow_file(tmp_path):
    path = tmp_path / "coflows.txt"
    path.write_text("4 2\n7 1500 2 0 1 2 2:3.0 3:1.5\n8 0 3 3 1 1 1 0:10\n")
    return path


@pytest.fixture
def asked_for(swim_file, workflow_file, coflow_file):
    """{Workload: its text with a small file}, for all of the list."""
    files = {"FILE.tsv": swim_file, "FILE.json": workflow_file, "FILE.txt": coflow_file}
    small = {"co-scheduler": ",jobs=15", "shadow-facebook": ",jobs=50"}
    return {
        name: (f"{name}:{files[family.file]}" if family.file else name) + small.get(name, "")
        for name, family in FAMILIES.items()
    }
