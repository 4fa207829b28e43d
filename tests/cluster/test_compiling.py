"""Compiled loops are those of the source as it is."""

import subprocess
import sys
from pathlib import Path

from railyard.cluster.compiling import loops_folder
from railyard.cluster.runfolder import mark_folder

ROOT = Path(__file__).parent.parent.parent


def test_a_change_of_any_source_is_another_folder(tmp_path):
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("LIMIT = 1\n")
    other.write_text("from one import LIMIT\n")
    before = loops_folder("test", [one, other], tmp_path)
    assert loops_folder("test", [tmp_path], tmp_path) == before
    one.write_text("LIMIT = 2\n")
    after = loops_folder("test", [one, other], tmp_path)
    assert after != before
    assert after.parent == before.parent == tmp_path
    one.write_text("LIMIT = 1\n")
    assert loops_folder("test", [one, other], tmp_path) == before


def test_older_loops_are_removed_and_folders_of_the_users_are_not(tmp_path):
    older = tmp_path / "loops-test-0123456789abcdef"
    older.mkdir(mode=0o700)
    mark_folder(older, "compiled loops")
    for name in ("loops-test-of-mine", "loops-test-fedcba9876543210", "theirs"):
        (tmp_path / name).mkdir(mode=0o700)
        (tmp_path / name / "thesis.txt").write_text("years of work")
    program = (
        "import pathlib; from railyard.cluster.compiling import set_up_numba;"
        f"set_up_numba('test', pathlib.Path({__file__!r}));"
        "import numba; print(numba.config.CACHE_DIR)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()).parent == tmp_path
    made = Path(done.stdout.strip()).name
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {made, "loops-test-of-mine", "loops-test-fedcba9876543210", "theirs"}
    assert len(list(tmp_path.glob("*/thesis.txt"))) == 3


def test_processes_that_begin_together_compile_a_loop_once(tmp_path):
    (tmp_path / "loop.py").write_text(
        "from numba import njit\n"
        "from railyard.cluster.compiling import compile_once\n"
        "@compile_once\n@njit(cache=True)\ndef loop(n):\n"
        "    total = 0\n    for at in range(n):\n        total += at\n    return total\n"
        "print(loop(5), sum(loop.stats.cache_misses.values()))\n"
    )
    command = [sys.executable, "-c", "import loop"]
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PATH": "", "PYTHONPATH": str(tmp_path)}
    both = [
        subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = sorted(process.communicate()[0] for process in both)
    assert said == ["10 0\n", "10 1\n"]
