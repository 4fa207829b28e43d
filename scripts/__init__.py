"""What people type: the ``railyard`` command, and the shell scripts that set it up."""
