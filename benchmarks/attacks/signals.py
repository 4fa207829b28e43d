"""Ctrl-C and SIGTERM at random moments of commands: nothing is left, and no file is half there."""

from __future__ import annotations

import signal
import time
from functools import partial
from pathlib import Path

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks._grounds.home import SMALL, Home, Ran, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Until then Python itself starts, and knows nothing of what we would like to say.
_PYTHON_STARTS_S = 0.5
_FILE_BYTES = 20_000_000
_END_TIMEOUT_S = 25.0


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Interrupt; ``quick`` does it once or twice a command."""
    return run_trials("signals", trials(), quick, seed, only)


def trials() -> list[Trial]:
    """All signals."""
    attacks = {
        "run": (6, _run),
        "up": (4, _up),
        "down": (4, _down),
        "compare": (4, _compare),
        "fs put": (2, _put),
        "fs get": (2, _get),
    }
    return [
        Trial(
            name=f"{command.replace(' ', '-')}-{number.name}-{i}",
            row=f"{number.name} to {command}",
            attack=partial(attack, number),
            quick=i == 0 and (number is signal.SIGINT or command == "run"),
        )
        for command, (times, attack) in attacks.items()
        for number in _SIGNALS
        for i in range(times // 2)
    ]


def _interrupt(home: Home, number: int, moment_s_max: float, *arguments: str | Path) -> Ran:
    """Start a command, interrupt it at a random moment, and look at how it ends."""
    moment_s = home.dice.uniform(0, moment_s_max)
    command = home.start(*arguments)
    time.sleep(moment_s)
    command.signal(number)
    ran = command.end(_END_TIMEOUT_S)
    where = f"{signal.Signals(number).name} after {moment_s:.3f} s"
    if moment_s > _PYTHON_STARTS_S:
        ran.require("Traceback" not in ran.stderr, f"{where}: a traceback")
        ran.require(ran.status in (0, 128 + number), f"{where}: another exit status")
    return ran


def _run(number: int, home: Home) -> None:
    _interrupt(home, number, 7.0, "run", "terasort", "--size", "1GB", "--topology", SMALL)
    home.require_nothing_left()


def _up(number: int, home: Home) -> None:
    ran = _interrupt(home, number, 2.0, "up", "--topology", SMALL)
    if ran.status == 0:
        home.run("down").require_ok()
    home.require_nothing_left()


def _down(number: int, home: Home) -> None:
    home.up()
    ran = _interrupt(home, number, 1.5, "down")
    again = home.run("down")
    again.require_words()
    again.require(again.status in (0, 2), "should end it, or say that nothing is up")
    require(ran.status != 0 or again.status == 2, "down was done, and the cluster was still up")
    home.require_nothing_left()


def _compare(number: int, home: Home) -> None:
    out = home.scratch / "results"
    sizes = ("--size", "500MB", "--topology", SMALL, "--out", out)
    _interrupt(home, number, 15.0, "compare", "terasort", "--schedulers", "fair,delay", *sizes)
    home.require_nothing_left()


def _put(number: int, home: Home) -> None:
    """Some puts on one cluster, each interrupted: what can be seen of them is whole."""
    local = home.random_file("local", _FILE_BYTES)
    home.up()
    for i in range(4):
        ran = _interrupt(home, number, 1.8, "fs", "put", local, f"/put{i}")
        there = home.run("fs", "cat", f"/put{i}")
        if there.status == 0:
            require(there.stdout == local.read_bytes(), f"/put{i} is there and not whole")
        else:
            require(ran.status != 0, f"/put{i} was put and is not there")
    _require_well(home)


def _get(number: int, home: Home) -> None:
    """Some gets on one cluster, each interrupted: what is there locally is whole."""
    local = home.random_file("local", _FILE_BYTES)
    home.up()
    home.run("fs", "put", local, "/file").require_ok()
    for i in range(4):
        got = home.scratch / f"got{i}"
        ran = _interrupt(home, number, 1.8, "fs", "get", "/file", got)
        require(ran.status != 0 or got.exists(), "got it, and nothing is there")
        whole = not got.exists() or got.read_bytes() == local.read_bytes()
        require(whole, f"an interrupted get left {got.stat().st_size if got.exists() else 0} bytes")
        rest = {path.name for path in home.scratch.iterdir()} - {"local", f"got{i}"}
        require(not any("got" in name for name in rest), f"an interrupted get left {rest}")
        got.unlink(missing_ok=True)
    _require_well(home)


def _require_well(home: Home) -> None:
    home.wait_for("unfinished blocks to go", lambda: not any(home.path.rglob("*.part")))
    home.wait_for("fsck to be healthy", lambda: home.run("fs", "fsck").status == 0)
    home.run("down").require_ok()
    home.require_nothing_left()
