"""What people type: the ``railyard`` command, and the shell scripts that set it up.

Not here: anything that another part needs.
Open ``main`` first; each command is a file in ``commands``.
"""
