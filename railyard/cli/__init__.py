"""The ``railyard`` command: its commands, one file for those of a kind, and exit statuses.

Not here: what a command does, which can be called from Python as well (``api``).
Open ``main`` first; each command is in ``commands``.
"""
