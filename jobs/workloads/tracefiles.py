"""Reads the file of a trace; errors name the format that it is in, or how to get public ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from railyard.cluster.errors import UsageError, printable
from railyard.cluster.inputfile import read_file

#: How to get traces, for errors.
HOW_TO_GET = "railyard workloads fetch puts the public traces into $RAILYARD_TRACES, or ./traces"
_LETTERS_MAX = 2000  #: of a first line, by which a format is found
#: A line of SWIM's, the first line of coflow-benchmark's.
_SWIM = re.compile(r"\S+(?:\t\d+){5}")
_COFLOWS = re.compile(r"\s*\d+\s+\d+\s*")
#: Columns of tables of Google's trace of 2011: of jobs, of tasks, of machines, of their use.
_GOOGLE = {8, 13, 6, 19, 20}
#: States of tasks in Alibaba's tables.
_ALIBABA = {"Terminated", "Failed", "Waiting", "Running", "Ready", "Interrupted", "Cancelled"}


def _is_of_google(line: str, _: bytes) -> bool:
    fields = line.split(",")
    return len(fields) in _GOOGLE and fields[0].isdigit() and fields[2].isdigit()


def _is_of_alibaba(line: str, _: bytes) -> bool:
    fields = line.split(",")
    return len(fields) >= 6 and not _ALIBABA.isdisjoint(fields)


#: {format of traces that people have: (workload that reads it, "" = none; whether a file is in it,
#: by its first line and all of it)}
_FORMATS: dict[str, tuple[str, Callable[[str, bytes], object]]] = {
    "a file packed by gzip": ("", lambda _, data: data.startswith(b"\x1f\x8b")),
    "a job history of Hadoop (.jhist)": ("", lambda line, _: line == "Avro-Json"),
    "an event log of Spark": ("", lambda line, _: "SparkListener" in line),
    "a job trace of Rumen": ("", lambda _, data: data[:1] == b"{" and b'"mapTasks"' in data),
    "a workflow in WfFormat": (
        "wfcommons",
        lambda _, data: data.lstrip()[:1] == b"{" and b'"workflow"' in data,
    ),
    "a SWIM trace": ("swim", lambda line, _: _SWIM.fullmatch(line)),
    "a trace of coflows": ("coflow-benchmark", lambda line, _: _COFLOWS.fullmatch(line)),
    "a table of Alibaba's cluster trace": ("", _is_of_alibaba),
    "a table of Google's cluster trace": ("", _is_of_google),
}


def read_trace(path: Path, what: str, workload: str) -> str:
    """The text of a trace in ASCII; ``what`` names its kind in errors: "SWIM trace".

    ``workload``: that reads such files.  Raises ``UsageError`` for a file that is missing, can't be
    read, or is in another known format.
    """
    try:
        return read_of_format(path, workload).decode("ascii")
    except UnicodeDecodeError:
        raise UsageError(f"{printable(str(path))}: is no {what}: need text in ASCII") from None


def read_of_format(path: Path, workload: str) -> bytes:
    """As ``read_trace``, without decoding."""
    try:
        data = read_file(path)
    except UsageError as error:
        if path.exists():
            raise
        raise UsageError(f"{error}: {HOW_TO_GET}") from None
    line = data[:_LETTERS_MAX].lstrip().partition(b"\n")[0].decode("latin-1").rstrip("\r")
    for form, (reader, fits) in _FORMATS.items():
        if fits(line, data):
            shown = printable(str(path))
            right = f"{reader}:{shown}" if reader else f"a file of {workload}'s format"
            if reader != workload:
                raise UsageError(f"{shown}: looks like {form}: need {right}")
            break
    return data
