"""How loops are compiled by numba, and where what is compiled is kept.

What is compiled has in it the functions, constants and types of other files than its own, and numba
does not look whether these have changed.  So it is kept in a folder that is named after all that
source.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from railyard.cluster.files import ownfolder

#: What numba needs of SciPy, for linear algebra only.
_BLAS = "scipy.linalg.cython_blas"
_PURPOSE = "compiled loops"
_HERE = Path(__file__).parent
#: the rooms and files of which something is compiled
_ROOMS = (
    "netemu/kernel",
    "netemu/circuits",
    "resourcemanager/core/shuffling/loops.py",
    "resourcemanager/schedulers/placement/loops",
)


@functools.cache
def set_up_numba() -> None:
    """Make numba ready, before the first of its decorators: 0.5 s and 70 MB.

    A first run on a machine also takes some seconds in which the loops are compiled and written to
    ``__pycache__``.
    """
    _keep_loops()
    _leave_out_scipy()


def loops_folder(sources: Iterable[Path], parent: Path) -> Path:
    """Where under ``parent`` is kept what is compiled from these files, as they are now."""
    seen = hashlib.sha256()
    for source in sorted(sources):
        seen.update(source.name.encode() + b"\0" + source.read_bytes())
    return parent / f"loops-{seen.hexdigest()[:16]}"


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
        ownfolder.mark(folder, _PURPOSE)
        for other in set(parent.glob("loops-*")) - {folder}:
            ownfolder.remove(other, _PURPOSE)
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
