"""tests.dfs.test_namespace."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from railyard.cluster.errors import PeerError
from railyard.dfs.messages import BlockId
from railyard.dfs.namenode.journal import ROOT, FileBlock, Journal
from railyard.dfs.namenode.namespace import Namespace
from railyard.dfs.paths import join_path, parse_path


class RecordingJournal(Journal):
    """A journal in memory; while ``broken`` it refuses commits, as on a full disk."""

    def __init__(self):
        self.inodes = {}
        self.broken = False

    def commit(self, changes, notes=()):
        changes = list(changes)
        if self.broken:
            raise OSError("no space left on device")
        for change in changes:
            if change.inode is None:
                self.inodes.pop(change.number, None)
            else:
                self.inodes[change.number] = change.inode


def blocks(*ids):
    return tuple(FileBlock(BlockId(i), 10) for i in ids)


class Tree:
    """A namespace that commits each change."""

    def __init__(self, journal=None):
        self.journal = journal or RecordingJournal()
        self.names = Namespace(self.journal, [])

    def mkdir(self, path):
        return self.names.change(self.names.make_folder, path)

    def put(self, path, *ids, overwrite=False):
        names = parse_path(path)
        return self.names.change(self.names.put_file, names, 3, blocks(*ids), overwrite)

    def move(self, *pairs, overwrite=False):
        def act():
            for source, target in pairs:
                self.names.move(source, target, overwrite)

        return self.names.change(act)

    def remove(self, path, recursive=False):
        return self.names.change(self.names.remove, path, recursive)

    def gather(self, source, *folders, into, overwrite=False):
        return self.names.change(self.names.gather, source, folders, into, overwrite)

    def paths(self, names=None):
        names = names or self.names
        inodes = names.below(names.get("/"))
        return {names.path_of(i): None if i.folder else i.blocks for i in inodes if i.number}


def test_folders_above_are_made():
    tree = Tree()
    tree.put("/a/b/c", 1)
    tree.mkdir("/x/y")
    tree.mkdir("/x/y")
    assert tree.paths() == {
        "/a": None,
        "/a/b": None,
        "/a/b/c": blocks(1),
        "/x": None,
        "/x/y": None,
    }


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda t: t.put("/d/f", 9), "/d/f: exists already"),
        (lambda t: t.put("/d", 9, overwrite=True), "/d: is a folder"),
        (lambda t: t.put("/", 9), "/: is a folder"),
        (lambda t: t.put("/d/f/x", 9), "/d/f: is a file, not a folder"),
        (lambda t: t.mkdir("/d/f"), "/d/f: is a file, not a folder"),
        (lambda t: t.remove("/none"), "/none: no such file or folder"),
        (lambda t: t.remove("/d"), "/d: a folder that is not empty"),
        (lambda t: t.remove("/"), "/: cannot be removed"),
        (lambda t: t.remove("/", recursive=True), "/: cannot be removed"),
        (lambda t: t.move(("/none", "/n")), "/none: no such file or folder"),
        (lambda t: t.move(("/d", "/d/e")), "into or onto itself"),
        (lambda t: t.move(("/d/f", "/d/f")), "into or onto itself"),
        (lambda t: t.move(("/d/f", "/g")), "/g: exists already"),
        (lambda t: t.move(("/d", "/g"), overwrite=True), "/g: exists already"),
        (lambda t: t.move(("/g", "/d")), "/d: is a folder"),
        (lambda t: t.move(("/g", "/d/f/x")), "/d/f: is a file"),
        (lambda t: t.move(("/", "/x")), "/: cannot be moved"),
        (lambda t: t.move(("/g", "/new"), ("/none", "/n")), "/none: no such"),
        (lambda t: t.move(("/d/f", "/../f")), "no '..'"),
    ],
)
def test_what_is_refused_changes_nothing(act, why):
    tree = Tree()
    tree.put("/d/f", 1)
    tree.put("/g", 2)
    before, kept = tree.paths(), dict(tree.journal.inodes)
    with pytest.raises(PeerError, match=why):
        act(tree)
    assert (tree.paths(), tree.journal.inodes) == (before, kept)


def test_freed_blocks_are_those_that_no_file_has_any_more():
    tree = Tree()
    assert tree.put("/f", 1, 2)[1] == []
    assert tree.put("/f", 3, overwrite=True)[1] == list(blocks(1, 2))
    assert tree.put("/g", 4)[1] == []
    assert tree.move(("/g", "/f"), overwrite=True)[1] == list(blocks(3))
    assert tree.move(("/f", "/h"))[1] == []
    tree.put("/h2/x", 5)
    assert [b.block for b in tree.remove("/h2", recursive=True)[1]] == [5]
    assert list(tree.paths()) == ["/h"]


def test_moving_a_folder_moves_what_is_in_it():
    tree = Tree()
    tree.put("/a/b/f", 1)
    tree.move(("/a", "/x/y"))
    assert tree.paths() == {"/x": None, "/x/y": None, "/x/y/b": None, "/x/y/b/f": blocks(1)}


def test_several_moves_happen_all_or_not_at_all():
    tree = Tree()
    for part in range(3):
        tree.put(f"/out/_temporary/j0.r{part}.0/part", part)
    pairs = [(f"/out/_temporary/j0.r{p}.0/part", f"/out/part-{p}") for p in range(3)]
    with pytest.raises(PeerError, match="/out/part-0: exists already"):
        tree.move(*pairs, pairs[0][::-1], pairs[0], pairs[1][::-1], (pairs[1][0], pairs[0][1]))
    assert "/out/part-0" not in tree.paths()
    tree.move(*pairs)
    assert tree.paths()["/out/part-2"] == blocks(2)


def test_the_files_of_some_folders_are_gathered_in_another():
    tree = Tree()
    for part in range(3):
        tree.put(f"/out/_temporary/j0.r{part}.0/part-{part}", part)
    tree.put("/out/part-2", 9)
    folders = [f"j0.r{part}.0" for part in range(3)]
    before = tree.paths()
    with pytest.raises(PeerError, match="/out/part-2: exists already"):
        tree.gather("/out/_temporary", *folders, into="/out")
    assert tree.paths() == before
    assert tree.gather("/out/_temporary", *folders[1:], into="/out", overwrite=True)[1] == [
        *blocks(9)
    ]
    tree.gather("/out/_temporary", folders[0], into="/else/where")
    assert {path: held for path, held in tree.paths().items() if held} == {
        "/else/where/part-0": blocks(0),
        "/out/part-1": blocks(1),
        "/out/part-2": blocks(2),
    }
    assert tree.paths(Namespace(Journal(), tree.journal.inodes.values())) == tree.paths()


@pytest.mark.parametrize(
    ("source", "folder", "into", "why"),
    [
        ("/none", "a", "/x", "/none: no such file or folder"),
        ("/d", "none", "/x", "/d/none: no such folder"),
        ("/d", "f", "/x", "/d/f: no such folder"),
        ("/d/f", "a", "/x", "/d/f/a: no such folder"),
        ("/d", "a", "/d/f", "/d/f: is a file"),
        ("/d", "a", "/d/a", "or it is /d/a itself"),
        ("/", "d", "/x", "/d/a: is a folder: need files only"),
    ],
)
def test_what_cannot_be_gathered_changes_nothing(source, folder, into, why):
    tree = Tree()
    tree.put("/d/a/g", 1)
    tree.put("/d/f", 2)
    before = tree.paths()
    with pytest.raises(PeerError, match=why):
        tree.gather(source, folder, into=into, overwrite=True)
    assert tree.paths() == before


def test_a_full_disk_changes_nothing():
    tree = Tree()
    tree.put("/d/f", 1)
    before = tree.paths()
    tree.journal.broken = True
    for act in (
        lambda: tree.put("/d/g", 2),
        lambda: tree.put("/d/f", 2, overwrite=True),
        lambda: tree.remove("/d", recursive=True),
        lambda: tree.move(("/d", "/e/f")),
        lambda: tree.mkdir("/m/n"),
        lambda: tree.gather("/", "d", into="/g"),
    ):
        with pytest.raises(OSError, match="no space"):
            act()
        assert tree.paths() == before
    tree.journal.broken = False
    tree.move(("/d", "/e/f"))
    assert tree.paths() == {"/e": None, "/e/f": None, "/e/f/f": blocks(1)}


def test_very_deep_folders():
    tree = Tree()
    tree.mkdir("/d" * 2000)
    assert len(tree.paths()) == 2000
    assert tree.remove("/d", recursive=True)[0] == (0, 2000)
    assert tree.paths() == {}


class AgainstAModel(RuleBasedStateMachine):
    """Random changes, against a dict of paths; after each, the journal has the same."""

    paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(
        lambda n: "/" + "/".join(n)
    )

    def __init__(self):
        super().__init__()
        self.tree = Tree()
        self.model = {}  # {path: blocks; None: a folder}
        self.next_block = 1

    def try_(self, allowed, act):
        if allowed:
            act()
        else:
            with pytest.raises(PeerError):
                act()
        return allowed

    def above(self, path):
        names = path.split("/")
        return ["/".join(names[:n]) for n in range(2, len(names))]

    def may_hold(self, path):
        return all(self.model.get(p) is None for p in self.above(path))

    def make_above(self, path):
        self.model.update(dict.fromkeys(self.above(path)))

    def below(self, path):
        return [p for p in self.model if p == path or p.startswith(path + "/")]

    @rule(path=paths, overwrite=st.booleans())
    def put(self, path, overwrite):
        there = path in self.model
        allowed = self.may_hold(path) and (not there or (overwrite and self.model[path]))
        new, self.next_block = self.next_block, self.next_block + 1
        if self.try_(allowed, lambda: self.tree.put(path, new, overwrite=overwrite)):
            self.make_above(path)
            self.model[path] = blocks(new)

    @rule(path=paths)
    def mkdir(self, path):
        allowed = self.may_hold(path + "/x")
        if self.try_(allowed, lambda: self.tree.mkdir(path)):
            self.make_above(path + "/x")

    @rule(path=paths, recursive=st.booleans())
    def remove(self, path, recursive):
        gone = self.below(path)
        allowed = bool(gone) and (recursive or len(gone) == 1)
        if self.try_(allowed, lambda: self.tree.remove(path, recursive)):
            for each in gone:
                del self.model[each]

    @rule(source=paths, new=paths)
    def move(self, source, new):
        allowed = (
            source in self.model
            and new not in self.model
            and not new.startswith(source + "/")
            and self.may_hold(new)
        )
        if self.try_(allowed, lambda: self.tree.move((source, new))):
            moved = {new + p[len(source) :]: self.model[p] for p in self.below(source)}
            for each in self.below(source):
                del self.model[each]
            self.make_above(new)
            self.model.update(moved)

    @rule(source=paths, folder=st.sampled_from("abc"), into=paths)
    def gather(self, source, folder, into):
        held = f"{source}/{folder}"
        inside = [path for path in self.below(held) if path != held]
        moves = {path: into + path[len(held) :] for path in inside}
        allowed = (
            self.model.get(held, "none") is None
            and not f"{into}/".startswith(f"{held}/")
            and all(self.model[path] for path in inside)
            and self.may_hold(into + "/x")
            and not set(moves.values()) & set(self.model)
        )
        if self.try_(allowed, lambda: self.tree.gather(source, folder, into=into)):
            self.make_above(into + "/x")
            for path, new in moves.items():
                self.model[new] = self.model.pop(path)

    @invariant()
    def same(self):
        assert self.tree.paths() == self.model
        again = Namespace(Journal(), self.tree.journal.inodes.values())
        assert self.tree.paths(again) == self.model
        assert ROOT not in self.tree.journal.inodes


AgainstAModel.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestAgainstAModel = AgainstAModel.TestCase


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/", ()),
        ("/a", ("a",)),
        ("/a/", ("a",)),
        ("/in/part-r-00000", ("in", "part-r-00000")),
        ("/für alle/…", ("für alle", "…")),
        ("/..a/.b", ("..a", ".b")),
    ],
)
def test_good_paths(path, names):
    assert parse_path(path) == names


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "empty path"),
        ("a/b", "relative"),
        ("../a", "relative"),
        ("/a/../b", "no '..'"),
        ("/..", "no '..'"),
        ("/a/./b", "no '.'"),
        ("//", "empty name"),
        ("/a//b", "empty name"),
        ("/a\nb", "control character"),
        ("/a\x00", "control character"),
        ("/\x7f", "control character"),
        ("/\x85", "control character"),
        ("/\ud800", "not valid Unicode"),
        ("/" + "x" * 256, "too long a name"),
        ("/" + "ü" * 128, "too long a name"),
        ("/x" * 2049, "too long"),
    ],
)
def test_bad_paths(path, why):
    with pytest.raises(PeerError, match=why):
        parse_path(path)


@given(st.text())
def test_any_text_is_parsed_or_refused(text):
    try:
        names = parse_path(text)
    except PeerError:
        return
    assert parse_path(join_path(names)) == names
    assert not set(names) & {"", ".", ".."}
