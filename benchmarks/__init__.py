"""What Railyard measures of itself: one file or folder per benchmark, with its bounds.

Not here: tests of behaviour.  Names with an underscore are rooms that benchmarks share.
Open ``startup`` first: ``scripts/bench NAME`` calls the ``run`` of benchmark NAME.
"""
