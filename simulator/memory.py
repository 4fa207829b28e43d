"""Garbage collection for simulations, which make few reference cycles and keep many objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: New objects before a collection of the youngest generation.  Python's default of 700 costs a
#: fifth of a run, 20,000 a twelfth.  Finished jobs need no collector (see ``Job.dissolve``).
_NEW_OBJECTS = 5_000_000


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage rarely while the block runs, and never the objects that exist before it."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.freeze()  # otherwise the next collection would scan all objects of the block at once
        gc.set_threshold(*before)
        gc.unfreeze()
