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

import click

from railyard.cluster.errors import printable
from railyard.cluster.machine import Exhausted, cause_of

#: Of more, only the number is said.
_FOLDERS_NAMED_MAX = 4


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


def say_written(folder: Path | None, json_file: Path | None) -> None:
    """Say on standard error what was written: a folder of results, a file with the summary."""
    if folder is not None and folder.is_dir():
        page = folder / "index.html"
        others = sorted(path for path in folder.iterdir() if path != page)
        names = [path.name for path in others if not path.is_dir()]
        folders = [f"{path.name}/" for path in others if path.is_dir()]
        names += folders if len(folders) <= _FOLDERS_NAMED_MAX else [f"{len(folders)} folders"]
        first = f"{page} shows it" if page.exists() else str(folder)
        click.echo(f"written: {printable(first)}; beside it {', '.join(names)}", err=True)
    if json_file is not None:
        click.echo(f"written: {printable(str(json_file))}", err=True)


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
