"""Railyard as others install it: one name, from any folder, whatever else is installed.

A wheel of the checkout and one of a package that ships ``scripts/``, ``jobs/`` and ``cluster/`` are
installed, without network, in a virtual environment that sees the dependencies of this one.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
HOUSE = [path for path in (ROOT / "railyard").iterdir() if path.is_dir()]
#: links that only a checkout has
LEFT_OUT = {"benchmarks", "oracles"}
PARTS = sorted({path.name for path in HOUSE} - LEFT_OUT - {"__pycache__"})
WHEEL_BYTES_MAX = 3_000_000
DECOY_SETUP = f"""
[project]
name = "decoy"
version = "1"
[tool.setuptools]
packages = {PARTS}
"""
#: the job that the README shows
JOB = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]


class Installed(NamedTuple):
    """A virtual environment with Railyard's wheel in it."""

    environment: Path
    elsewhere: Path  #: a folder outside of the checkout
    wheel: Path

    def run(self, *words: str | Path) -> str:
        """What a program of the environment prints, called in the folder elsewhere."""
        home = {"RAILYARD_HOME": str(self.elsewhere)}
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [self.environment / "bin" / words[0], *words[1:]],
            cwd=self.elsewhere,
            env=plain | home,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pip(self, *words: str | Path) -> None:
        """Install or remove something, without network."""
        pip = [sys.executable, "-m", "pip", "--python", self.environment / "bin" / "python"]
        subprocess.run([*pip, *words], check=True, capture_output=True, timeout=100)

    def assert_railyard_works(self) -> None:
        """The command runs, and the library is the one that was installed."""
        assert "co-scheduler" in self.run("railyard", "schedulers")
        place = self.run("python", "-c", "import railyard.jobs as j; print(j.Job, j.__file__)")
        assert place.startswith("<class 'railyard.jobs.model.Job'>")
        assert str(self.environment) in place


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    setuptools = pytest.importorskip("setuptools", reason="setuptools builds the wheel")
    if int(setuptools.__version__.split(".")[0]) < 71:  # older ones need another package for it
        pytest.skip("needs setuptools >= 71: pip install -e .[dev]")
    folder = tmp_path_factory.mktemp("packaging")
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "tests")
    shutil.copytree(ROOT, folder / "checkout", symlinks=True, ignore=ignored)
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    with tempfile.TemporaryDirectory() as elsewhere:  # its path is short, for sockets
        found = Installed(environment, Path(elsewhere), build(folder / "checkout", folder))
        found.pip("install", "--no-index", "--no-deps", found.wheel)
        yield found


@pytest.fixture
def decoy(installed: Installed, tmp_path: Path) -> None:
    """Installs a package with folders that are called like parts of Railyard."""
    project = tmp_path / "decoy"
    for name in PARTS:
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise RuntimeError('the decoy was imported')")
    (project / "pyproject.toml").write_text(DECOY_SETUP)
    installed.pip("install", "--no-index", "--no-deps", build(project, tmp_path))


def build(project: Path, into: Path) -> Path:
    """The wheel of a project."""
    command = [sys.executable, "-c", BUILD, into]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=100)
    [wheel] = into.glob("*.whl")
    return wheel


def test_a_wheel_has_one_top_level_name_and_all_files(installed):
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"railyard"}
    parts = [name if (ROOT / name).is_dir() else f"railyard/{name}" for name in PARTS]
    tracked = subprocess.run(
        ["git", "ls-files", *parts], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    wanted = {f"railyard/{name.removeprefix('railyard/')}" for name in tracked}
    assert wanted <= names
    assert not {name.split("/")[1] for name in names} & LEFT_OUT
    assert installed.wheel.stat().st_size <= WHEEL_BYTES_MAX


def test_benchmarks_are_run_in_a_checkout(installed):
    done = subprocess.run(
        [installed.environment / "bin" / "railyard", "bench"],
        cwd=installed.elsewhere,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "railyard: bench: an installed package has no benchmarks: they run in a checkout\n"
    )


def test_a_users_job_runs_from_any_folder(installed):
    (installed.elsewhere / "long_words.py").write_text(JOB)
    (installed.elsewhere / "corpus.txt").write_text("Elephants never forget\nelephants are LARGE\n")
    installed.run(
        *("railyard", "run", "./long_words.py", "--input", "corpus.txt"),
        *("--topology", "flat-4x4", "--get", "words"),
    )
    parts = sorted((installed.elsewhere / "words").glob("part-*"))
    assert b"".join(part.read_bytes() for part in parts) == b"elephants\t2\n"


def test_a_study_runs_from_any_folder(installed):
    code = "import railyard as r; print(r.simulate('terasort', size='500MB').ok, r.__file__)"
    said = installed.run("python", "-c", code)
    assert said.startswith(f"True {installed.environment}")


def test_another_package_with_folders_of_the_same_names_breaks_nothing(installed, decoy):
    installed.assert_railyard_works()
    installed.pip("uninstall", "--yes", "decoy")
    installed.assert_railyard_works()
