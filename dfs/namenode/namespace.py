"""The tree of files and folders, and its rules.

A change is applied in memory, then committed to the journal; if either fails, all of it is undone.
The tree has only complete files.

Never here: block locations, and any input or output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, TypeVarTuple

import msgspec

from railyard.cluster.errors import PeerError
from railyard.dfs.namenode.journal import ROOT, Attributes, Change, FileBlock, Inode, Journal, Note
from railyard.dfs.paths import (
    EXISTS,
    IS_FOLDER,
    MISSING,
    NO_FOLDER,
    NOT_EMPTY,
    join_path,
    parse_path,
)

Given = TypeVarTuple("Given")
T = TypeVar("T")
Names = tuple[str, ...]
#: As in HDFS: of new folders and files, and the group of "/", which all below it inherit.
_FOLDER_PERMISSION, _FILE_PERMISSION = 0o755, 0o644
_ROOT_GROUP = "supergroup"
#: The children of a file: none.
_NOTHING: dict[str, int] = {}


class Namespace:
    """Inodes by number and by path; ``owner`` has all of which nobody says whose they are."""

    def __init__(
        self, journal: Journal, inodes: Iterable[Inode], owner: str = "", now_s: float = 0.0
    ) -> None:
        self._journal = journal
        self._owner = owner
        self.now_s = now_s  #: the time of changes, in seconds since 1970
        #: what the journal is to note with a change, by the change's result
        self.notes_of: Callable[[object], Sequence[Note]] = lambda _: ()
        self._inodes: dict[int, Inode] = {}
        #: {folder: {name: inode number}}; has an entry for every folder
        self._children: dict[int, dict[str, int]] = {}
        #: {inode number: its value before the current change; None if it is new}
        self._before: dict[int, Inode | None] = {}
        attributes = Attributes(owner, _ROOT_GROUP, _FOLDER_PERMISSION, now_s, now_s)
        self._put(Inode(number=ROOT, parent=ROOT, name="", folder=True, attributes=attributes))
        for inode in inodes:
            self._put(inode)
        self._next = 1 + max(self._inodes)

    # Looking ---------------------------------------------------------------------------------
    def find(self, path: str) -> Inode | None:
        if path[:1] == "/":
            parts = path[1:].split("/")
            number, depth = self._walk(parts)
            if depth == len(parts):  # found, so the path is valid
                return self._inodes[number]
        names = parse_path(path)
        number, depth = self._walk(names)
        return self._inodes[number] if depth == len(names) else None

    def numbered(self, number: int) -> Inode | None:
        return self._inodes.get(number)

    def get(self, path: str) -> Inode:
        inode = self.find(path)
        if inode is None:
            raise PeerError(f"{path}: no such file or folder", MISSING)
        return inode

    def entries(self, inode: Inode) -> int:
        return len(self._children.get(inode.number, _NOTHING))

    def children(self, folder: Inode) -> list[Inode]:
        names = self._children[folder.number]
        return [self._inodes[names[name]] for name in sorted(names)]

    def below(self, inode: Inode) -> Iterator[Inode]:
        """Yield the inode and everything below it: parents first, siblings by name."""
        waiting = [inode]  # not recursive: a path may have thousands of folders
        while waiting:
            inode = waiting.pop()
            yield inode
            if inode.folder:
                waiting.extend(reversed(self.children(inode)))

    def path_of(self, inode: Inode) -> str:
        names: list[str] = []
        while inode.number != ROOT:
            names.append(inode.name)
            inode = self._inodes[inode.parent]
        return join_path(tuple(reversed(names)))

    # Changing --------------------------------------------------------------------------------
    def change(
        self, act: Callable[[*Given], T], *given: *Given, notes: Sequence[Note] = ()
    ) -> tuple[T, list[FileBlock]]:
        """Run ``act(*given)`` as one atomic change, and commit it to the journal with ``notes``.

        Returns its result and the blocks that no file has any more.  If ``act`` or the journal
        raises, the change is undone and the exception passed on.
        """
        try:
            result = act(*given)
            changes = (Change(number, self._inodes.get(number)) for number in self._before)
            self._journal.commit(changes, (*notes, *self.notes_of(result)))
        except BaseException:
            self._undo()
            raise
        freed = self._freed_blocks() if any(self._before.values()) else []
        self._before.clear()
        return result, freed

    def make_folder(self, path: str, owner: str = "", permission: int | None = None) -> int:
        """Make a folder and its parents, with that permission; its number.  Within ``change``."""
        names = parse_path(path)
        number, depth = self._walk(names)
        if number not in self._children:
            raise PeerError(f"{join_path(names[:depth])}: is a file, not a folder", NO_FOLDER)
        return self._make_folders(number, names[depth:], owner, permission)

    def put_file(
        self,
        names: Names,
        replication: int,
        blocks: tuple[FileBlock, ...],
        overwrite: bool,
        owner: str = "",
        permission: int | None = None,
        block_bytes: int = 0,
    ) -> Inode:
        """Add a complete file at the path given by ``names``.  Within ``change``."""
        parent = self._make_way(names, overwrite, owner)
        return self._add(parent, names[-1], replication, blocks, owner, permission, block_bytes)

    def replace(self, inode: Inode) -> None:
        """Give an inode that exists another value, at the same place.  Within ``change``."""
        self._before.setdefault(inode.number, self._inodes[inode.number])
        self._inodes[inode.number] = inode

    def move(self, source: str, target: str, overwrite: bool) -> None:
        """Rename a file or folder.  Within ``change``."""
        inode, names = self.get(source), parse_path(target)
        if inode.number == ROOT:
            raise PeerError("/: cannot be moved")
        if target.startswith(source.rstrip("/")):
            before = parse_path(source)
            if names[: len(before)] == before:
                raise PeerError(f"{source}: cannot be moved into or onto itself, {target}")
        there = self.find(target) if overwrite and inode.folder else None
        if there is not None and there.folder:
            self.remove(target, recursive=False)
        self._rename(inode, self._make_way(names, overwrite and not inode.folder), names[-1])

    def gather(self, source: str, folders: Sequence[str], target: str, overwrite: bool) -> None:
        """Move all files in some subfolders of ``source`` to ``target``.  Within ``change``."""
        if not folders:
            return  # a job without output may not even have the folder
        there = self._children.get(self.get(source).number, _NOTHING)
        into = self.make_folder(target)
        for folder in folders:
            number = there.get(folder, into)
            files = self._children.get(number)
            if files is None or number == into:
                raise PeerError(f"{source}/{folder}: no such folder, or it is {target} itself")
            for name in list(files):
                inode = self._inodes[files[name]]
                if inode.folder:
                    raise PeerError(f"{source}/{folder}/{name}: is a folder: need files only")
                if name in self._children[into]:
                    self._make_way(parse_path(f"{target}/{name}"), overwrite)
                self._rename(inode, into, name)

    def remove(self, path: str, recursive: bool) -> tuple[int, int]:
        """Remove a path; return the numbers of files and folders removed.  Within ``change``."""
        inode = self.get(path)
        if inode.number == ROOT:
            raise PeerError("/: cannot be removed: need a path of what is in it")
        if inode.folder and self._children[inode.number] and not recursive:
            raise PeerError(f"{path}: a folder that is not empty: need -r (recursive)", NOT_EMPTY)
        removed, folders = [inode.number], 0
        for number in removed:  # the list grows in the loop
            within = self._children.get(number)
            if within is not None:
                removed += within.values()
                folders += 1
        for number in reversed(removed):
            self._before.setdefault(number, self._inodes.pop(number))
            self._children.pop(number, None)
        del self._children[inode.parent][inode.name]
        self._touch(inode.parent)
        return len(removed) - folders, folders

    def check_target(self, names: Names, overwrite: bool) -> tuple[int, int]:
        """Raise ``PeerError`` if no file may be put at ``names``; returns as ``_walk``."""
        number, depth = self._walk(names)
        is_folder = number in self._children
        if depth < len(names):
            if not is_folder:
                raise PeerError(f"{join_path(names[:depth])}: is a file, not a folder", NO_FOLDER)
        elif is_folder:
            raise PeerError(f"{join_path(names)}: is a folder", IS_FOLDER)
        elif not overwrite:
            raise PeerError(f"{join_path(names)}: exists already", EXISTS)
        return number, depth

    # Helpers ---------------------------------------------------------------------------------
    def _make_way(self, names: Names, overwrite: bool, owner: str = "") -> int:
        """Make the parent folder and remove a file to be replaced; return the folder's number."""
        number, depth = self.check_target(names, overwrite)
        if depth < len(names):
            return self._make_folders(number, names[depth:-1], owner)
        replaced = self._inodes[number]
        self._before.setdefault(number, replaced)
        self._drop(number)
        return replaced.parent

    def _walk(self, names: Sequence[str]) -> tuple[int, int]:
        """Follow ``names`` from the root; return the last existing inode's number and its depth."""
        number, depth, children = ROOT, 0, self._children
        for name in names:
            found = children.get(number, _NOTHING).get(name)
            if found is None:
                return number, depth
            number = found
            depth += 1
        return number, depth

    def _make_folders(
        self, number: int, names: Names, owner: str = "", permission: int | None = None
    ) -> int:
        for name in names:
            number = self._add(number, name, owner=owner, permission=permission).number
            self._children[number] = {}
        return number

    def _rename(self, inode: Inode, parent: int, name: str) -> None:
        """Move an inode to an existing folder in which the name is free."""
        moved = msgspec.structs.replace(inode, parent=parent, name=name)
        self._before.setdefault(inode.number, inode)
        del self._children[inode.parent][inode.name]
        self._inodes[inode.number] = moved
        self._children[parent][name] = inode.number
        self._touch(inode.parent)
        self._touch(parent)

    def _touch(self, number: int) -> None:
        folder = self._inodes[number]
        if folder.attributes.modified_s != self.now_s:
            attributes = msgspec.structs.replace(folder.attributes, modified_s=self.now_s)
            self.replace(msgspec.structs.replace(folder, attributes=attributes))

    def _add(
        self,
        parent: int,
        name: str,
        replication: int | None = None,
        blocks: tuple[FileBlock, ...] = (),
        owner: str = "",
        permission: int | None = None,
        block_bytes: int = 0,
    ) -> Inode:
        """Add a new inode to an existing folder; with a replication it is a file."""
        number, now_s = self._next, self.now_s
        self._next = number + 1
        if permission is None:
            permission = _FOLDER_PERMISSION if replication is None else _FILE_PERMISSION
        group = self._inodes[parent].attributes.group
        given = owner or self._owner, group, permission, now_s, now_s, block_bytes
        inode = Inode(
            number=number,
            parent=parent,
            name=name,
            folder=replication is None,
            replication=replication or 0,
            blocks=blocks,
            attributes=Attributes(*given),
        )
        self._before[number] = None
        self._inodes[number] = inode
        self._children[parent][name] = number
        self._touch(parent)
        return inode

    def _put(self, inode: Inode) -> None:
        number, children = inode.number, self._children
        self._inodes[number] = inode
        if inode.folder:
            children.setdefault(number, {})
        if number != ROOT:
            children.setdefault(inode.parent, {})[inode.name] = number

    def _drop(self, number: int) -> None:
        old = self._inodes.pop(number, None)
        if old is None:
            return
        siblings = self._children.get(old.parent, {})
        if siblings.get(old.name) == number:
            del siblings[old.name]
        if not self._children.get(number, True):
            del self._children[number]

    def _undo(self) -> None:
        for number in reversed(self._before):
            self._drop(number)
        for inode in self._before.values():
            if inode is not None:
                self._put(inode)
        self._before.clear()

    def _freed_blocks(self) -> list[FileBlock]:
        """The blocks that the changed inodes had before and none has now; one file per block."""
        inodes = self._inodes
        had = [
            old.blocks
            for number, old in self._before.items()
            if old is not None
            and old.blocks
            and ((new := inodes.get(number)) is None or new.blocks is not old.blocks)
        ]
        if not had:
            return []
        now = [inodes.get(number) for number in self._before]
        kept = {b.block for inode in now if inode is not None for b in inode.blocks}
        return [b for blocks in had for b in blocks if b.block not in kept]
