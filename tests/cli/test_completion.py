"""Completion: what a shell offers for a word, and that a key is answered without heavy imports."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cli.commands.completion import complete, find_words
from railyard.cli.commands.registry import COMMANDS
from railyard.resourcemanager.schedulers import all_recipes


@pytest.fixture(scope="module")
def words():
    return find_words()


def values(words, line):
    *typed, incomplete = line.split(" ")
    return [item.value for item in complete(words, typed, incomplete) if item.type == "plain"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ru", ["run"]),
        ("fs p", ["put"]),
        ("run teras", ["terasort"]),
        ("run terasort --sched", ["--scheduler"]),
        ("run terasort --scheduler joint:", ["joint:no-aeap", "joint:no-virtual"]),
        ("run --scheduler=hef", ["--scheduler=heft"]),
        ("run terasort,siz", ["terasort,size_error=", "terasort,size="]),
        ("run terasort mix,wind", ["mix,window="]),
        ("compare terasort --schedulers fair,del", ["fair,delay"]),
        ("simulate --flow-scheduler sunf", ["sunflow"]),
        ("simulate --set delay.n", ["delay.node_wait_s="]),
        ("simulate --workload corral-w1,jo", ["corral-w1,jobs="]),
        ("simulate --faults node:r0n1@1s,li", ["node:r0n1@1s,link:"]),
        ("chaos wordcount --kinds stop,kill-d", ["stop,kill-datanode"]),
        ("simulate --behaviour stragglers", ["stragglers="]),
        ("up --network overs", ["oversubscription="]),
        ("up --topology hybrid-8x4,del", ["hybrid-8x4,delta="]),
        ("up --durability ", ["fast", "safe"]),
        ("reproduce corral fig1", ["fig10", "fig11", "fig12", "fig13", "fig14"]),
        ("schedulers shad", ["shadow", *sorted(n for n in all_recipes() if n[:7] == "shadow:")]),
        ("run --size 1", []),
        ("nothing x", []),
    ],
)
def test_what_is_offered(words, line, expected):
    assert values(words, line) == expected


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("run ./my_j", "file"),
        ("run wordcount --input ", "file"),
        ("run wordcount --json ", "file"),
        ("simulate --out ", "dir"),
        ("simulate --topology ./m", "file"),
        ("replay ", "dir"),
        ("fs put ", "file"),
    ],
)
def test_files_where_files_are_meant(words, line, kind):
    *typed, incomplete = line.split(" ")
    assert [item.type for item in complete(words, typed, incomplete)] == [kind]


def test_everything_with_a_name_is_there(words):
    assert list(words.commands[""].commands) == list(COMMANDS)
    assert set(words.values["scheduler"]) == set(all_recipes())
    for kind in ("topology", "flow scheduler", "workload", "job", "network", "setting", "paper"):
        assert words.values[kind]


@given(
    st.lists(st.sampled_from(["run", "simulate", "fs", "--set", "--scheduler", "x,"]), max_size=3),
    st.text("abcdefhimnorstuvwx-,:=./", max_size=8),
)
def test_what_is_offered_begins_with_what_was_typed(words, typed, incomplete):
    for item in complete(words, typed, incomplete):
        assert item.value.startswith(incomplete)


def test_a_wrong_shell_is_named(railyard):
    done = railyard.call("completion", "tcsh")
    assert done.returncode == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_says_how_to_install_it(railyard, shell):
    script = railyard.call("completion", shell).stdout
    assert f"railyard completion {shell}" in script
    assert f"_RAILYARD_COMPLETE={shell}_complete" in script


_PRESS_TAB = """
source {script}
COMP_LINE="railyard run terasort --scheduler joint:no-v"
COMP_POINT=${{#COMP_LINE}}
_railyard_completion {railyard} 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def test_bash_is_answered_without_importing_what_is_heavy(railyard, tmp_path):
    script, program = tmp_path / "script", tmp_path / "railyard"
    script.write_text(railyard.call("completion", "bash").stdout)
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom railyard.cli.main import run\n"
        "assert run() == 0\n"
        "assert not {'numpy', 'zmq', 'rich', 'scipy', 'numba'} & set(sys.modules)\n"
        f"open({str(tmp_path / 'sound')!r}, 'w').close()\n"
    )
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", _PRESS_TAB.format(script=script, railyard=program)],
        env=railyard.environment | {"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == ["no-virtual"]  # bash itself has all up to the colon
    assert (tmp_path / "sound").exists()


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish: apt-get install fish")
def test_fish_completes_values(railyard):
    asked = 'source (railyard completion fish | psub); complete -C "railyard compare -x fair,del"'
    folder = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["fish", "-c", asked.replace("-x", "terasort --schedulers")],
        env=railyard.environment | {"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split("\t")[0] == "fair,delay"


def test_zsh_goes_on_after_what_is_no_whole_word(railyard):
    script = railyard.call("completion", "zsh").stdout
    assert 'if [[ "$key" == *[=:,] ]]; then suffix=(-S ""); fi' in script
    assert script.count('"${suffix[@]}" -U') == 2
