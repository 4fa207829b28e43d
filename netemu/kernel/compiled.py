"""The loops of this room, compiled by numba: the same functions under the same names."""

from __future__ import annotations

import functools
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

#: How numba is asked to compile.  Without ``_nrt``, it counts no references to arrays, which took
#: more than half of the time: these functions make none.
_SETTINGS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
_WITHIN: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@functools.cache
def compiled(modules: tuple[ModuleType, ...]) -> SimpleNamespace:
    """{module: its functions}, of modules that each come after those that they call.

    They work on ``pointers`` to tables.  Loading them takes half a second.
    """
    from railyard.cluster.compiling import set_up_numba

    set_up_numba("network", *sorted({Path(str(module.__file__)).parent for module in modules}))
    from railyard.netemu.kernel.pointers import Pointers

    made: dict[Any, Any] = {}
    loops = {module.__name__.rpartition(".")[2]: _compile(module, made) for module in modules}
    return SimpleNamespace(pointers=Pointers, **loops)


def _compile(module: ModuleType, made: dict[Any, Any]) -> SimpleNamespace:
    """Compile the functions of a module in their order, and have them call compiled ones.

    Each is compiled when it is first called.  Those that compiled ones call can't be called by
    Python, which would be more code for each.
    """
    from numba import njit

    from railyard.cluster.compiling import compile_once

    scope = {
        name: made.get(value, value) if callable(value) else value
        for name, value in vars(module).items()
    }
    outer: dict[str, Any] = {}
    for name, value in vars(module).items():
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            copy = FunctionType(value.__code__, scope, name)
            copy.__module__, copy.__qualname__ = module.__name__, name
            outer[name] = compile_once(njit(cache=True, **_SETTINGS)(copy))
            scope[name] = made[value] = njit(**_SETTINGS, **_WITHIN)(copy)
    return SimpleNamespace(**outer)
