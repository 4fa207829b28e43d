"""Circuits as links: see ``arrays`` for the idea and the arrays, then ``pairs`` and ``plane``."""
