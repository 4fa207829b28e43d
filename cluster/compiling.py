"""How loops are compiled by numba, and where what is compiled is kept.

What is compiled has in it the functions, constants and types of other files than its own, and numba
does not look whether these have changed.  So it is kept in a folder that is named after all that
source.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib
import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from railyard.cluster import runfolder

#: What numba needs of SciPy, for linear algebra only.
_BLAS = "scipy.linalg.cython_blas"
_PURPOSE = "compiled loops"
_HERE = Path(__file__).parent
#: the rooms and files of which something is compiled
_ROOMS = (
    "netemu/kernel",
    "netemu/circuits",
    "resourcemanager/core/shuffling/loops.py",
    "resourcemanager/schedulers/tetrium/exact.py",
)


@functools.cache
def set_up_numba() -> None:
    """Make numba ready, before the first of its decorators: 0.5 s and 70 MB.

    A first run on a machine also takes up to a minute or two in which the loops are compiled and
    written to ``__pycache__``.
    """
    _keep_loops()
    _leave_out_scipy()


def loops_folder(sources: Iterable[Path], parent: Path) -> Path:
    """Where under ``parent`` is kept what is compiled from these files, as they are now."""
    seen = hashlib.sha256()
    for source in sorted(sources):
        seen.update(source.name.encode() + b"\0" + source.read_bytes())
    return parent / f"loops-{seen.hexdigest()[:16]}"


def compile_once(loop: Any) -> Any:
    """Have one process at a time compile a cached loop, and others wait and load what it made.

    Compiling takes up to a minute and half a gigabyte, and processes of a sweep begin together.
    ``loop``: what ``njit(cache=True)`` has returned, which is returned again.
    """
    cache, locks = loop._cache, ExitStack()
    load, save = cache.load_overload, cache.save_overload

    def load_or_lock(*key: object) -> object:
        found = load(*key)
        if found is None:
            with suppress(OSError):  # no place for it: each compiles for itself
                file = locks.enter_context((Path(cache.cache_path) / "lock").open("a"))
                fcntl.flock(file, fcntl.LOCK_EX)
                found = load(*key)
            if found is not None:
                locks.close()
        return found

    def save_and_unlock(*made: object) -> None:
        save(*made)
        locks.close()

    cache.load_overload, cache.save_overload = load_or_lock, save_and_unlock
    return loop


def _keep_loops() -> None:
    """Have numba use this source's folder; those that we made for older source are removed."""
    from numba import config

    settings, parent = vars(config), _HERE / "__pycache__"
    if settings["CACHE_DIR"]:
        parent = Path(settings["CACHE_DIR"])
    elif not os.access(_HERE, os.W_OK):
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        parent = Path(caches) / "railyard"
    if settings["BOUNDSCHECK"]:
        parent /= "checked"  # numba does not tell these from loops without checks
    rooms = [_HERE.parent / room for room in _ROOMS]
    files = [room for room in rooms if room.is_file()]
    sources = [*files, *(source for room in rooms for source in room.rglob("*.py"))]
    folder = loops_folder(sources, parent)
    with suppress(OSError):  # several come at once, or no place for it: numba sees to that
        parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        runfolder.mark_folder(folder, _PURPOSE)
        for other in set(parent.glob("loops-*")) - {folder}:
            runfolder.remove_folder(other, _PURPOSE)
    settings["CACHE_DIR"] = str(folder)


def _leave_out_scipy() -> None:
    """Have numba do without SciPy, of which no loop here uses anything: 14 MB."""
    if _BLAS in sys.modules:
        return
    sys.modules[_BLAS] = None  # type: ignore[assignment]  # it can't be imported, that says
    try:
        importlib.import_module("numba.np.arraymath")  # this looks whether it can
    finally:
        del sys.modules[_BLAS]
