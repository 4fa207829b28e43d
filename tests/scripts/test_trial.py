"""Users' modules that would end the command line are found out before."""

import pytest

from railyard.cluster.errors import UsageError
from railyard.jobs.package import pack_file
from railyard.scripts.running.trial import survived


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
