"""The tree of files and folders, and its rules.

A change is tried, then committed to the journal, then settled; if any step of it fails, all of
it is undone.  Only complete files are in here.

Never here: where blocks are, and any input or output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, TypeVarTuple

from railyard.cluster.errors import PeerError
from railyard.dfs.namenode.journal import ROOT, Change, FileBlock, Inode, Journal
from railyard.dfs.paths import join_path, parse_path

Given = TypeVarTuple("Given")
T = TypeVar("T")
Names = tuple[str, ...]
#: What is in a file, as if it were a folder.
_NOTHING: dict[str, int] = {}


class Namespace:
    """Inodes by number and by path."""

    def __init__(self, journal: Journal, inodes: Iterable[Inode]) -> None:
        self._journal = journal
        self._inodes: dict[int, Inode] = {}
        #: {folder: {name: inode number}}; has an entry for every folder
        self._children: dict[int, dict[str, int]] = {}
        #: {inode number: what it was before the change that is being tried}
        self._before: dict[int, Inode | None] = {}
        self._put(Inode(number=ROOT, parent=ROOT, name="", folder=True))
        for inode in inodes:
            self._put(inode)
        self._next = 1 + max(self._inodes)

    # Looking ---------------------------------------------------------------------------------
    def find(self, path: str) -> Inode | None:
        """What is at ``path``, if anything."""
        if path[:1] == "/":
            parts = path[1:].split("/")
            number, depth = self._walk(parts)
            if depth == len(parts):  # so there is nothing wrong with that path
                return self._inodes[number]
        names = parse_path(path)
        number, depth = self._walk(names)
        return self._inodes[number] if depth == len(names) else None

    def get(self, path: str) -> Inode:
        """What is at ``path``; ``PeerError`` if nothing is."""
        inode = self.find(path)
        if inode is None:
            raise PeerError(f"{path}: no such file or folder")
        return inode

    def children(self, folder: Inode) -> list[Inode]:
        """What is in a folder, sorted by name."""
        names = self._children[folder.number]
        return [self._inodes[names[name]] for name in sorted(names)]

    def below(self, inode: Inode) -> Iterator[Inode]:
        """The inode and everything below it, parents first, by name."""
        waiting = [inode]  # not recursive: a path may have thousands of folders
        while waiting:
            inode = waiting.pop()
            yield inode
            if inode.folder:
                waiting.extend(reversed(self.children(inode)))

    def path_of(self, inode: Inode) -> str:
        """The path of an inode."""
        names: list[str] = []
        while inode.number != ROOT:
            names.append(inode.name)
            inode = self._inodes[inode.parent]
        return join_path(tuple(reversed(names)))

    # Changing --------------------------------------------------------------------------------
    def change(self, act: Callable[[*Given], T], *given: *Given) -> tuple[T, list[FileBlock]]:
        """Do what ``act`` does with what it is given, wholly or not at all.

        Returns its result and the blocks that no file has any more.  Whatever ``act`` or the
        journal raises is raised, with nothing changed.
        """
        try:
            result = act(*given)
            self._journal.commit(map(self._change_of, self._before))
        except BaseException:
            self._undo()
            raise
        freed = self._freed_blocks() if any(self._before.values()) else []
        self._before.clear()
        return result, freed

    def make_folder(self, path: str) -> int:
        """Make a folder and those above it; its number.  Within ``change``."""
        names = parse_path(path)
        number, depth = self._walk(names)
        if number not in self._children:
            raise PeerError(f"{join_path(names[:depth])}: is a file, not a folder")
        return self._make_folders(number, names[depth:])

    def put_file(
        self, names: Names, replication: int, blocks: tuple[FileBlock, ...], overwrite: bool
    ) -> Inode:
        """Put a complete file into the tree, at those names.  Within ``change``."""
        return self._add(self._make_way(names, overwrite), names[-1], replication, blocks)

    def move(self, source: str, target: str, overwrite: bool) -> None:
        """Give a file or folder a new path.  Within ``change``."""
        inode, names = self.get(source), parse_path(target)
        if inode.number == ROOT:
            raise PeerError("/: cannot be moved")
        if target.startswith(source.rstrip("/")):
            before = parse_path(source)
            if names[: len(before)] == before:
                raise PeerError(f"{source}: cannot be moved into or onto itself, {target}")
        self._rename(inode, self._make_way(names, overwrite and not inode.folder), names[-1])

    def gather(self, source: str, folders: Sequence[str], target: str, overwrite: bool) -> None:
        """Put the files in some folders of a folder into another folder.  Within ``change``."""
        if not folders:
            return  # so that of a job without output not even the folder is needed
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
        """Remove; how many files and folders went.  Within ``change``."""
        inode = self.get(path)
        if inode.number == ROOT:
            raise PeerError("/: cannot be removed: need a path of what is in it")
        if inode.folder and self._children[inode.number] and not recursive:
            raise PeerError(f"{path}: a folder that is not empty: need -r (recursive)")
        gone, folders = [inode.number], 0
        for number in gone:  # which grows
            within = self._children.get(number)
            if within is not None:
                gone += within.values()
                folders += 1
        for number in reversed(gone):
            self._before.setdefault(number, self._inodes.pop(number))
            self._children.pop(number, None)
        del self._children[inode.parent][inode.name]
        return len(gone) - folders, folders

    def check_target(self, names: Names, overwrite: bool) -> tuple[int, int]:
        """The last that there is on the way to where a file is to be put, and how far that is.

        Raises ``PeerError`` if no file may be put there.
        """
        number, depth = self._walk(names)
        is_folder = number in self._children
        if depth < len(names):
            if not is_folder:
                raise PeerError(f"{join_path(names[:depth])}: is a file, not a folder")
        elif is_folder:
            raise PeerError(f"{join_path(names)}: is a folder")
        elif not overwrite:
            raise PeerError(f"{join_path(names)}: exists already")
        return number, depth

    # Helpers ---------------------------------------------------------------------------------
    def _make_way(self, names: Names, overwrite: bool) -> int:
        """The folder that a file is put into: it is made, and what the file replaces goes."""
        number, depth = self.check_target(names, overwrite)
        if depth < len(names):
            return self._make_folders(number, names[depth:-1])
        parent = self._inodes[number].parent
        self._remove(number)
        return parent

    def _walk(self, names: Sequence[str]) -> tuple[int, int]:
        """The last that there is on a way from the root, and how many of the names that takes."""
        number, depth, children = ROOT, 0, self._children
        for name in names:
            found = children.get(number, _NOTHING).get(name)
            if found is None:
                return number, depth
            number = found
            depth += 1
        return number, depth

    def _make_folders(self, number: int, names: Names) -> int:
        """Make a folder in folder ``number``, in that another, and so on; the last one."""
        for name in names:
            number = self._add(number, name).number
            self._children[number] = {}
        return number

    def _rename(self, inode: Inode, parent: int, name: str) -> None:
        """Have an inode in a folder that there is, where nothing has that name."""
        moved = Inode(
            number=inode.number,
            parent=parent,
            name=name,
            folder=inode.folder,
            replication=inode.replication,
            blocks=inode.blocks,
        )
        self._before.setdefault(inode.number, inode)
        del self._children[inode.parent][inode.name]
        self._inodes[inode.number] = moved
        self._children[parent][name] = inode.number

    def _change_of(self, number: int) -> Change:
        return Change(number, self._inodes.get(number))

    def _add(
        self,
        parent: int,
        name: str,
        replication: int | None = None,
        blocks: tuple[FileBlock, ...] = (),
    ) -> Inode:
        """Put a new inode into a folder that there is; a file if it has a replication."""
        number = self._next
        self._next = number + 1
        inode = Inode(
            number=number,
            parent=parent,
            name=name,
            folder=replication is None,
            replication=replication or 0,
            blocks=blocks,
        )
        self._before[number] = None
        self._inodes[number] = inode
        self._children[parent][name] = number
        return inode

    def _remove(self, number: int) -> None:
        self._before.setdefault(number, self._inodes[number])
        self._drop(number)

    def _put(self, inode: Inode) -> None:
        number, children = inode.number, self._children
        self._inodes[number] = inode
        if inode.folder and number not in children:
            children[number] = {}
        if number != ROOT:
            siblings = children.get(inode.parent)
            if siblings is None:
                siblings = children[inode.parent] = {}
            siblings[inode.name] = number

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
        """Blocks of the changed inodes that none of those has now: a block is in one file only."""
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
