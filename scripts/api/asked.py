"""What a function is asked for, as the requests that commands make of their options.

``None`` is what was not said.  Mistakes raise ``UsageError``, with one line, as on a command line.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from railyard.cluster.errors import UsageError, require
from railyard.cluster.tomlfile import build
from railyard.cluster.units import parse_size
from railyard.scripts.terminal.notices import heard_by
from railyard.scripts.terminal.options import Settings, TextPairs

#: A file, folder or pattern, several, or {name of an input: any of these}; "dfs:/PATH" is of the
#: block store.
AnyInput = str | Path | Iterable[str | Path] | Mapping[str, str | Path | Iterable[str | Path]]

_SEED_MAX = 2**63 - 1


class Advice(UserWarning):
    """What a command would say on standard error: a setting without effect, for instance."""


@contextmanager
def called(*, progress: bool) -> Iterator[None]:
    """A call from Python: it prints nothing but progress, and that only if it is asked to.

    Notices become warnings at the place of the call.
    """
    said: list[str] = []
    try:
        with heard_by(said.append, wants_progress=progress):
            yield
    finally:
        warn(said, stacklevel=5)  # beyond contextlib and our own function


def warn(said: Iterable[str], stacklevel: int) -> None:
    """Turn notices into warnings, each once."""
    for words in dict.fromkeys(said):
        warnings.warn(words, Advice, stacklevel=stacklevel)


def names(given: str | Iterable[str]) -> tuple[str, ...]:
    """Names of schedulers; text has commas between them."""
    every = given.split(",") if isinstance(given, str) else given
    return tuple(name.strip() for name in every)


def text_pairs(settings: Mapping[str, Any] | None) -> TextPairs:
    """Settings whose values are read as in a topology's file: {"uplink": "1Gbps", "ocs": "off"}."""
    return tuple((key, _text(value)) for key, value in (settings or {}).items())


def pairs(settings: Mapping[str, Any] | None) -> Settings:
    """Settings of schedulers: {"delay.node_wait_s": 3}."""
    return tuple((settings or {}).items())


def built(settings: Mapping[str, Any] | None, kind: type[Any], name: str) -> Any:
    """An object of these settings; None without any.  ``UsageError`` for unknown ones."""
    return build(dict(settings), kind, name) if settings else None


def inputs_of(given: AnyInput) -> tuple[str, ...]:
    """Inputs as ``--input`` has them: "FILE", or "NAME=FILE"."""
    if isinstance(given, Mapping):
        return tuple(f"{name}={each}" for name, files in given.items() for each in _each(files))
    return tuple(_each(given))


def _each(files: str | Path | Iterable[str | Path]) -> list[str]:
    return [str(files)] if isinstance(files, str | Path) else [str(each) for each in files]


def size_of(size: str | int | None) -> int | None:
    """A size in bytes; it may be text such as "10GB"."""
    return None if size is None else parse_size(size)


def seed_of(seed: int) -> int:
    """A seed; ``UsageError`` unless it is a whole number that there is."""
    is_number = isinstance(seed, int) and not isinstance(seed, bool)
    require(is_number and 0 <= seed <= _SEED_MAX, "seed", seed, "a whole number from 0 on")
    return seed


def count_of(name: str, count: int | None) -> int | None:
    """A number of seeds, jobs or reduces; ``UsageError`` unless it is at least 1."""
    is_number = isinstance(count, int) and not isinstance(count, bool) and count >= 1
    require(count is None or is_number, name, count, "a whole number from 1 on")
    return count


def seeds_of(seeds: int | range | None) -> int | range | None:
    """A number of seeds, or which they are; ``UsageError`` for anything else."""
    if not isinstance(seeds, range):
        return count_of("seeds", seeds)
    require(seeds.step == 1 and 0 < seeds.start < seeds.stop, "seeds", seeds, "as range(4, 11)")
    return seeds


def new_folder(out: str | Path | None, name: str = "out") -> Path | None:
    """The path of a folder that is to be made; ``UsageError`` if it cannot be."""
    if out is None:
        return None
    path = Path(out)
    if path.exists() or not path.absolute().parent.is_dir():
        raise UsageError(f"{name} = {out}: need a new folder in a folder that exists")
    if not os.access(path.absolute().parent, os.W_OK):
        raise UsageError(f"{name} = {out}: need a place that you may write to")
    return path


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
