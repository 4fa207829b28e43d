"""Copies of the block store's files are there whole or not at all."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from railyard.cluster.errors import UsageError
from railyard.jobs.package import pack_file
from railyard.runs.files import NotCopied, copy_out
from railyard.runs.workloads import survived
from railyard.terminal.interrupts import Interrupted
from tests.fulldisk import files_of_at_most, small_disk


class Store:
    """What ``copy_out`` asks of a block store: files by their paths."""

    def __init__(self, files, breaks=None):
        self._files = files
        self._breaks = breaks  #: raised before the second piece of a file

    def status(self, path):
        return SimpleNamespace(path=path, folder=path not in self._files)

    def list(self, path):
        start = path.rstrip("/") + "/"
        names = {name.removeprefix(start).split("/")[0] for name in self._files if start in name}
        return [self.status(start + name) for name in sorted(names)]

    def read(self, path):
        half = len(self._files[path]) // 2
        yield self._files[path][:half]
        if self._breaks is not None:
            raise self._breaks
        yield self._files[path][half:]


TREE = {"/in/a": b"first", "/in/sub/b": b"second", "/in/sub/deep/c": b"third"}


def test_a_folder_comes_with_all_in_it(tmp_path):
    assert copy_out(Store(TREE), "/in", tmp_path / "new") == 16
    assert (tmp_path / "new" / "sub" / "deep" / "c").read_bytes() == b"third"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_tree_deeper_than_pythons_stack(tmp_path):
    path = "/d" * 1500 + "/f"
    try:
        assert copy_out(Store({path: b"far down"}), "/d", tmp_path / "new") == 8
    finally:  # shutil.rmtree, by which pytest cleans up, is recursive
        subprocess.run(["rm", "-rf", tmp_path / "new"], check=True)


def test_a_tree_deeper_than_the_system_allows_is_reported_in_a_line(tmp_path):
    path = "/" + "/".join(["d" * 100] * 50) + "/f"
    with pytest.raises(
        NotCopied, match=r"\.\.\. \(\d+ letters\): cannot be written: File name"
    ) as e:
        copy_out(Store({path: b"far down"}), "/", tmp_path / "new")
    assert len(str(e.value)) < 400
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/in", "/in/a"])
@pytest.mark.parametrize("breaks", [Interrupted(2), OSError(5, "I/O error"), ValueError()])
def test_what_breaks_off_leaves_nothing(tmp_path, path, breaks):
    with pytest.raises((NotCopied, type(breaks))):
        copy_out(Store(TREE, breaks), path, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already_stays(tmp_path):
    (tmp_path / "old").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("old", "link"):
        with pytest.raises(UsageError, match="exists already"):
            copy_out(Store(TREE), "/in/a", tmp_path / name)
    assert (tmp_path / "old").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_limit_on_files_is_named(tmp_path):
    with (
        files_of_at_most(1000),
        pytest.raises(NotCopied, match=r"new: cannot be written: a file would be larger than"),
    ):
        copy_out(Store({"/in/a": bytes(3000)}), "/in/a", tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named(tmp_path):
    with small_disk(tmp_path / "disk", 2**18) as disk:
        with pytest.raises(
            NotCopied, match=f"new: cannot be written: no space left on {disk.path}"
        ):
            copy_out(Store({"/in/a": bytes(2**20)}), "/in/a", disk.path / "new")
        assert list(disk.path.iterdir()) == []


# Users' modules that would end the command line are found out before.


@pytest.mark.parametrize(
    ("source", "how"),
    [
        pytest.param("import os; os._exit(0)", r"\(exit 0\)", id="on import"),
        pytest.param(
            "import os; os.kill(os.getpid(), 9)", r"\(signal 9 \(SIGKILL\)\)", id="signal"
        ),
        pytest.param(
            "import os\nfrom railyard import Job\nclass J(Job):\n def setup(self): os._exit(3)",
            r"\(exit 3\)",
            id="when it is made",
        ),
    ],
)
def test_a_module_that_ends_whoever_imports_it_is_refused(tmp_path, source, how):
    file = tmp_path / "ends.py"
    file.write_text(source)
    with pytest.raises(UsageError, match=f"ends.py: ends the process that imports it {how}"):
        survived([str(file)], lambda: pack_file(file))


def test_a_module_that_fails_or_exits_as_pythons_do_tells_its_own_story(tmp_path):
    file = tmp_path / "fails.py"
    file.write_text("raise SystemExit(0)")
    with pytest.raises(UsageError, match=r"fails.py:1: SystemExit: 0"):
        survived([str(file)], lambda: pack_file(file))


def test_what_a_module_prints_is_printed_once(tmp_path, capfd):
    file = tmp_path / "prints.py"
    file.write_text("print('here')\ndef map(line): yield line, 1")
    assert survived([str(file)], lambda: pack_file(file)).job_class == "Functions"
    assert capfd.readouterr().out == "here\n"
