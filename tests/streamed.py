"""Streaming jobs as tests run them: bytes in, the output's bytes or the command's errors out."""

from __future__ import annotations

import itertools

from tests.hadoop import Hadoop

_NUMBERS = itertools.count()


def stored(hadoop: Hadoop, data: bytes, path: str) -> None:
    """Put bytes into the block store, with the folders above them."""
    hadoop.ok("hadoop", "fs", "-mkdir", "-p", path.rpartition("/")[0])
    hadoop.put(data, path)


def streamed(hadoop: Hadoop, data: bytes, *words: object, name: str = "f", **options) -> bytes:
    """What a job over one file writes, its parts one after the other."""
    at, status, errors = submitted(hadoop, data, *words, name=name, **options)
    assert status == 0, errors
    return hadoop.get(f"{at}/out/part-*")


def failing(hadoop: Hadoop, data: bytes, *words: object, name: str = "f", **options) -> str:
    """What the command says of a job that cannot be; never a traceback of ours."""
    _, status, errors = submitted(hadoop, data, *words, name=name, **options)
    assert status == 1, errors
    assert "Traceback" not in errors
    return errors


def submitted(
    hadoop: Hadoop, data: bytes, *words: object, name: str = "f", **options
) -> tuple[str, int, str]:
    """(Folder with the job's in and out, exit status, what the command said)."""
    at = f"/streamed/{next(_NUMBERS)}"
    stored(hadoop, data, f"{at}/in/{name}")
    command = ["hadoop", "jar", "x.jar", "-input", f"{at}/in", "-output", f"{at}/out"]
    if "-reducer" not in words:
        command += ["-reducer", "NONE"]
    status, _, errors = hadoop.run(*command, *map(str, words), **options)
    return at, status, errors
