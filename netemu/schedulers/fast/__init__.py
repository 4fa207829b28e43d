"""The flow schedulers with many open flows: the same rates as theirs, worked out by compiled loops.

``FlowScheduler.compiled`` leads here.  Importing this costs half a second and 70 MB, and a first
run on a machine some seconds, in which the loops are compiled and written to ``__pycache__``; so
only a simulation with many open flows does.

What is compiled has in it the functions, constants and types of other files than its own, at whose
changes numba does not look.  So it is kept in a folder that is named after all that source.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from numba import config

from railyard.cluster.files import ownfolder

#: What numba needs of SciPy, for linear algebra only.
_BLAS = "scipy.linalg.cython_blas"
_PURPOSE = "compiled loops"
_HERE = Path(__file__).parent
_SOURCES = (*_HERE.parent.rglob("*.py"), _HERE.parent.parent / "fabric/rows.py")


def loops_folder(sources: Iterable[Path], parent: Path) -> Path:
    """Where under ``parent`` is kept what is compiled from these files, as they are now."""
    seen = hashlib.sha256()
    for source in sorted(sources):
        seen.update(source.name.encode() + b"\0" + source.read_bytes())
    return parent / f"loops-{seen.hexdigest()[:16]}"


def _keep_loops() -> None:
    """Have numba use this source's folder; those that we made for older source are removed."""
    settings, parent = vars(config), _HERE / "__pycache__"
    if settings["CACHE_DIR"]:
        parent = Path(settings["CACHE_DIR"])
    elif not os.access(_HERE, os.W_OK):
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        parent = Path(caches) / "railyard"
    folder = loops_folder(_SOURCES, parent)
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


_keep_loops()
_leave_out_scipy()
