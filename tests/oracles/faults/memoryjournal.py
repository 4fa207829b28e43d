"""A journal in memory: what a simulated NameNode that is restarted finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from railyard.dfs.messages import BlockId
from railyard.dfs.namenode.journal import (
    AnswerChange,
    Change,
    Inode,
    Journal,
    Loaded,
    Note,
    OpenBlockChange,
    Opened,
    OpenFileChange,
)


class MemoryJournal(Journal):
    """Keeps all that is committed or noted, as long as the process lives."""

    def __init__(self) -> None:
        self._starts = 0
        self._inodes: dict[int, Inode] = {}
        self._opened: dict[int, tuple[Opened, dict[BlockId, int]]] = {}
        self._answers: dict[str, AnswerChange] = {}

    def load(self) -> Loaded:
        self._starts += 1
        opened = [(each, blocks.copy()) for each, blocks in self._opened.values()]
        answers = list(self._answers.values())
        return Loaded(self._starts - 1, list(self._inodes.values()), opened, answers)

    def commit(self, changes: Iterable[Change], notes: Sequence[Note] = ()) -> None:
        for change in changes:
            if change.inode is None:
                self._inodes.pop(change.number, None)
            else:
                self._inodes[change.number] = change.inode
        self.note(notes)

    def note(self, notes: Sequence[Note]) -> None:
        for note in notes:
            if isinstance(note, OpenFileChange):
                self._opened.pop(note.number, None)
                if note.opened is not None:
                    self._opened[note.number] = note.opened, {}
            elif isinstance(note, OpenBlockChange):
                blocks = self._opened[note.file][1]
                blocks.pop(note.block, None)
                if note.stored_length is not None:
                    blocks[note.block] = note.stored_length
            elif note.answer is None:
                self._answers.pop(note.token, None)
            else:
                self._answers[note.token] = note
