"""A journal in memory, which is loaded as often as a NameNode starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from railyard.dfs.messages.blocks import BlockId
from railyard.dfs.namenode.journal import (
    AnswerChange,
    Change,
    Inode,
    Loaded,
    Note,
    OpenBlockChange,
    Opened,
    OpenFileChange,
)


class MemoryJournal:
    def __init__(self) -> None:
        self.starts = 0
        self.inodes: dict[int, Inode] = {}
        self.opened: dict[int, Opened] = {}
        self.blocks: dict[int, dict[BlockId, int]] = {}
        self.answers: dict[int, AnswerChange] = {}

    def load(self) -> Loaded:
        self.starts += 1
        opened = [(self.opened[n], dict(self.blocks.get(n, {}))) for n in sorted(self.opened)]
        inodes = [self.inodes[number] for number in sorted(self.inodes)]
        return Loaded(self.starts - 1, inodes, opened, list(self.answers.values()))

    def commit(self, changes: Iterable[Change], notes: Sequence[Note] = ()) -> None:
        for change in changes:
            if change.inode is None:
                self.inodes.pop(change.number, None)
            else:
                self.inodes[change.number] = change.inode
        self.note(notes)

    def note(self, notes: Sequence[Note]) -> None:
        for note in notes:
            match note:
                case OpenFileChange(opened=None):
                    self.opened.pop(note.number, None)
                    self.blocks.pop(note.number, None)
                case OpenFileChange():
                    self.opened[note.number] = note.opened
                case OpenBlockChange(stored_length=None):
                    del self.blocks[note.file][note.block]
                case OpenBlockChange():
                    self.blocks.setdefault(note.file, {})[note.block] = note.stored_length
                case AnswerChange(answer=None):
                    del self.answers[note.number]
                case AnswerChange():
                    self.answers[note.number] = note
