"""Garbage collection for simulations, which make few reference cycles and keep many objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: New objects before a collection of the youngest generation.  Python's default of 700 costs a
#: fifth of a run, 20,000 a twelfth.  Finished jobs need no collector (see ``Job.dissolve``).
_NEW_OBJECTS = 5_000_000
#: Objects that blocks left before the next block begins with a collection, which takes time for
#: each object of the process, of whomever it is: 1 s for some ten millions.
_LEFT_OBJECTS = 1_000_000
_left_objects = 0  #: since the last such collection


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage rarely while the block runs, and never the objects that exist before it."""
    global _left_objects
    before = gc.get_threshold()
    if _left_objects >= _LEFT_OBJECTS:
        gc.collect()
        _left_objects = 0
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        young, older, _ = gc.get_count()
        _left_objects += young + older * _NEW_OBJECTS
        gc.freeze()  # otherwise the next collection would scan all objects of the block at once
        gc.set_threshold(*before)
        gc.unfreeze()
