"""The documentation: reference pages written from the code, and the settings of the site.

Not here: pages that people write (``docs/``).
Open ``pages`` first.
"""
