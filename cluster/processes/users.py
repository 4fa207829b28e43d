"""Who runs this process."""

from __future__ import annotations

import getpass


def user_name() -> str:
    """The user's name, or "user" for an account without one, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "user"
