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

from railyard.cluster.runfolder import mark_folder, remove_folder

#: What numba needs of SciPy, for linear algebra only.
_BLAS = "scipy.linalg.cython_blas"
_PURPOSE = "compiled loops"
_HERE = Path(__file__).parent


@functools.cache
def set_up_numba(name: str, *sources: Path) -> None:
    """Make numba ready for loops that are compiled from these files or folders: 0.5 s and 70 MB.

    Right before its decorators, of which ``name`` says what they are for.  A first run on a machine
    also takes up to a minute or two in which the loops are compiled and written to ``__pycache__``.
    """
    from numba import config

    folder = loops_folder(name, sources, _parent())
    with suppress(OSError):  # several come at once, or no place for it: numba sees to that
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        mark_folder(folder, _PURPOSE)
        for other in set(folder.parent.glob(f"loops-{name}-*")) - {folder}:
            remove_folder(other, _PURPOSE)  # of older source
    vars(config)["CACHE_DIR"] = str(folder)
    _leave_out_scipy()


def loops_folder(name: str, sources: Iterable[Path], parent: Path) -> Path:
    """Where under ``parent`` is kept what is compiled from these files, as they are now."""
    seen = hashlib.sha256()
    for source in sources:
        for file in sorted(source.rglob("*.py")) if source.is_dir() else (source,):
            seen.update(file.name.encode() + b"\0" + file.read_bytes())
    return parent / f"loops-{name}-{seen.hexdigest()[:16]}"


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


@functools.cache
def _parent() -> Path:
    """Where folders of loops are, as numba was told, or beside this source if it is ours."""
    from numba import config

    settings, parent = vars(config), _HERE / "__pycache__"
    if settings["CACHE_DIR"]:
        parent = Path(settings["CACHE_DIR"])
    elif not os.access(_HERE, os.W_OK):
        parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "railyard"
    # numba does not tell these from loops without checks
    return parent / "checked" if settings["BOUNDSCHECK"] else parent


def _leave_out_scipy() -> None:
    """Have numba do without SciPy, of which no loop here uses anything: 14 MB."""
    if _BLAS in sys.modules:
        return
    sys.modules[_BLAS] = None  # type: ignore[assignment]  # it can't be imported, that says
    try:
        importlib.import_module("numba.np.arraymath")  # this looks whether it can
    finally:
        del sys.modules[_BLAS]
