"""What a reduce attempt has fetched, and which of its fetches are under way.

Names and numbers only, so that attempts can hold a ``Reader`` and ``shuffling`` can be above them.

Never here: what is fetched next; see ``shuffling/shuffle.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

from railyard.cluster.ids import NodeId


class ReaderRows(Protocol):
    """The fetches of a stage's readers; see ``shuffling/fetches.py``."""

    def missing(self, reader: int) -> int:
        """How many tasks' outputs have not arrived yet."""

    def fetched(self, reader: int) -> Mapping[str, int]:
        """{Stage read: bit set of the tasks with output that has arrived}."""

    def sources_of(self, reader: int) -> Collection[NodeId]:
        """The nodes from which something is under way."""


class Reader(msgspec.Struct, frozen=True, eq=False):
    """How far a reduce attempt's fetching is."""

    rows: ReaderRows
    number: int  #: among the readers of its stage

    @property
    def missing(self) -> int:
        """How many tasks' outputs have not arrived yet."""
        return self.rows.missing(self.number)

    @property
    def fetched(self) -> Mapping[str, int]:
        """{Stage read: bit set of the tasks with output that has arrived}.  O(outputs)."""
        return self.rows.fetched(self.number)

    @property
    def sources(self) -> Collection[NodeId]:
        """The nodes from which something is under way."""
        return self.rows.sources_of(self.number)

    def has(self, stage: str, index: int) -> bool:
        """Whether the output of a task of a stage that it reads has arrived."""
        return bool(self.fetched[stage] >> index & 1)
