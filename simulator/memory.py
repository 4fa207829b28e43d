"""Garbage collection that suits a simulation: it makes few cycles and keeps millions of objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: New objects before the youngest are looked through; Python's own 700 costs a fifth of a run,
#: 20,000 a twelfth.  What jobs leave behind goes without that (see ``Job.dissolve``).
_NEW_OBJECTS = 5_000_000


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage seldom while the block runs; what is there already is not looked at."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.freeze()  # what there is now is old: it would all be looked through at once as young
        gc.set_threshold(*before)
        gc.unfreeze()
