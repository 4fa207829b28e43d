"""Circuits as links: pairs of racks get, use and lose circuits, in loops like those of ``kernel``.

Not here: which flows there are and when they end (``fabric`` and ``kernel``).
Open ``arrays`` first: the idea, and the arrays; then ``pairs`` and ``switch``.
"""
