"""Files of results: written whole or not at all, with an error that says why."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from railyard.cluster.files.resources import Exhausted, cause_of
from railyard.cluster.shown import printable


class NotWritten(Exhausted):
    """A file could not be written: the disk is full, say."""


def write_json(value: Any, file: Path, indent: int | None = 2) -> None:
    """Write a value as JSON; raises ``NotWritten``."""
    write_text(json.dumps(value, indent=indent) + "\n", file)


def write_text(text: str, file: Path) -> None:
    """Write a text, in place of what the file had; raises ``NotWritten``, and then that stays."""
    with naming(file):
        file = file.resolve()
        is_ordinary = file.is_file() or not file.exists()
        if not is_ordinary or not os.access(file.parent, os.W_OK):
            file.write_text(text, encoding="utf-8")
            return
        unfinished = file.with_name(f".railyard-{secrets.token_hex(4)}.part")
        try:
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(file)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raise ``NotWritten`` with this path for what the system says of writing in the block."""
    try:
        yield
    except shutil.Error as error:  # of a tree that was copied; it has one of each file
        raise NotWritten(
            f"{printable(str(path))}: cannot be written: {error.args[0][0][2]}"
        ) from error
    except OSError as error:
        why = cause_of(error, path.parent)
        raise NotWritten(f"{printable(str(path))}: cannot be written: {why}") from error
