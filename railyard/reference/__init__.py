"""Reference pages of the documentation, written from the code.

Not here: pages that people write (``docs/``).
Open ``pages`` first.
"""
