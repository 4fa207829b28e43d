"""A home that holds its user's own things, and one in a place that all users share."""

import os
import tempfile
from pathlib import Path

import pytest

from railyard.cluster.errors import UsageError
from railyard.runs import home as clusters


@pytest.fixture
def short():
    """A folder whose path is short: there are to be sockets in it."""
    with tempfile.TemporaryDirectory(prefix="ry") as name:
        yield Path(name)


@pytest.fixture
def home(short, monkeypatch):
    monkeypatch.setenv("RAILYARD_HOME", str(short))
    return short


@pytest.fixture
def shared(short, monkeypatch):
    """A folder that all users share, where the home is unless one is chosen."""
    short.chmod(0o1777)
    monkeypatch.delenv("RAILYARD_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    return short / f"railyard-{os.geteuid()}"


def start_and_end(*, current=False):
    """What a command does about folders, without a cluster; the run folder that it had."""
    folder, alive = clusters.new_folder(current=current)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    os.close(alive)
    clusters.forget(folder)
    assert not folder.path.exists()
    return folder.path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(path, text="years of work"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_users_own_files_in_the_home_are_not_touched(home):
    own = [
        write(home / name)
        for name in ("c-notes/thesis.txt", "lock", "current", "alive", "c-a/cluster.json")
    ]
    start_and_end()
    start_and_end(current=True)
    assert [path.read_text() for path in own] == ["years of work"] * len(own)
    assert names(home) == ["alive", "c-a", "c-notes", "clusters", "current", "lock"]


def test_a_users_own_files_among_run_folders_are_not_touched(home, tmp_path):
    start_and_end()
    thesis = write(tmp_path / "elsewhere" / "thesis.txt")
    own = [write(home / "clusters" / name) for name in ("c-notes/thesis.txt", "lock", "notes")]
    (home / "clusters" / "c-link").symlink_to(thesis.parent)
    (home / "clusters" / "c-empty").mkdir(mode=0o700)
    start_and_end()
    assert [path.read_text() for path in (thesis, *own)] == ["years of work"] * 4
    assert (home / "clusters" / "c-empty").is_dir()
    assert (home / "clusters" / "c-link").is_symlink()


def test_a_dead_clusters_folder_is_removed_one_that_lives_is_not(home):
    dead, alive = clusters.new_folder(current=True)
    os.close(alive)
    lives, alive = clusters.new_folder(current=True)
    assert not dead.path.exists()
    assert clusters.current_folder().path == lives.path
    with pytest.raises(UsageError, match="a cluster is up already"):
        clusters.new_folder(current=True)
    start_and_end()
    assert clusters.current_folder().path == lives.path
    os.close(alive)
    assert clusters.current_folder() is None
    assert clusters.dead_current_folder().path == lives.path
    clusters.forget(lives)
    assert names(home / "clusters") == ["lock"]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda link, _: write(link), id="a file"),
        pytest.param(lambda link, target: link.symlink_to(target), id="a link elsewhere"),
        pytest.param(lambda link, _: link.symlink_to("notes"), id="a link to a neighbour"),
        pytest.param(lambda link, _: link.mkdir(), id="a folder"),
    ],
)
def test_what_a_user_calls_current_is_not_touched(home, tmp_path, make):
    start_and_end()
    link = home / "clusters" / "current"
    make(link, tmp_path)
    before = link.lstat()
    assert clusters.current_folder() is clusters.dead_current_folder() is None
    start_and_end()
    with pytest.raises(UsageError, match="clusters/current: is not Railyard's: move it away"):
        clusters.new_folder(current=True)
    assert link.lstat() == before
    assert names(home / "clusters") == ["current", "lock"]


def test_a_link_called_lock_is_not_followed(home, tmp_path):
    start_and_end()
    thesis = write(tmp_path / "thesis.txt")
    (home / "clusters" / "lock").unlink()
    (home / "clusters" / "lock").symlink_to(thesis)
    with pytest.raises(UsageError, match="clusters/lock: cannot be locked"):
        clusters.new_folder(current=False)
    assert thesis.read_text() == "years of work"


def test_a_lock_that_cannot_be_looked_at_is_no_proof_of_death(home, monkeypatch):
    folder, alive = clusters.new_folder(current=False)
    os.close(alive)
    opened = os.open

    def no_descriptors(path, *arguments, **named):
        if str(path).endswith("alive"):
            raise OSError(24, "Too many open files")
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", no_descriptors)
    assert not clusters.wait_until_dead(folder, 0)
    with clusters._locked(folder.path.parent):
        clusters._remove_dead(folder.path.parent)
    assert folder.path.exists()


def test_a_chosen_home_may_be_a_link(home, monkeypatch):
    (home / "real").mkdir()
    link = home / "link"
    link.symlink_to(home / "real")
    monkeypatch.setenv("RAILYARD_HOME", str(link))
    start_and_end()


def test_the_home_among_temporary_files_is_made_for_this_user_alone(shared):
    assert clusters.current_folder() is None
    assert not shared.exists()
    start_and_end()
    assert shared.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(
            lambda path, theirs: path.symlink_to(theirs), "is a link: move it away", id="a link"
        ),
        pytest.param(lambda path, _: write(path), "is not a folder: move it away", id="a file"),
        pytest.param(
            lambda path, _: (path.mkdir(), path.chmod(0o777)),
            r"others have access to it \(mode 777\): chmod 700",
            id="all may write",
        ),
        pytest.param(
            lambda path, theirs: (path.mkdir(0o700), (path / "clusters").symlink_to(theirs)),
            "clusters: is a link",
            id="a link within",
        ),
        pytest.param(
            lambda path, _: (path.mkdir(0o700), (path / "clusters").mkdir(0o755)),
            r"clusters: others have access to it \(mode 755\)",
            id="others may enter",
        ),
    ],
)
def test_a_home_that_somebody_else_may_have_made_is_refused(shared, tmp_path, spoil, words, up):
    theirs = tmp_path / "theirs"
    thesis = write(theirs / "clusters" / "c-notes" / "thesis.txt")
    spoil(shared, theirs)
    with pytest.raises(UsageError, match=words) as refused:
        clusters.new_folder(current=True) if up else clusters.current_folder()
    assert "set RAILYARD_HOME to a folder of your own" in str(refused.value)
    assert thesis.read_text() == "years of work"
    assert names(theirs / "clusters") == ["c-notes"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
def test_another_users_home_is_refused(home, shared, monkeypatch):
    for path in (home, shared):
        path.mkdir(mode=0o700, exist_ok=True)
        os.chown(path, 12345, -1)
        monkeypatch.setenv("RAILYARD_HOME", str(path) if path == home else "")
        with pytest.raises(UsageError, match="belongs to another user: set RAILYARD_HOME"):
            clusters.new_folder(current=False)


def test_a_chosen_home_where_anybody_may_replace_our_folder_is_refused(home):
    home.chmod(0o777)
    with pytest.raises(UsageError, match="every user may write to it: chmod o-w it, or set"):
        clusters.new_folder(current=False)
    home.chmod(0o1777)  # as of /tmp: nobody may rename what is another's
    start_and_end()
