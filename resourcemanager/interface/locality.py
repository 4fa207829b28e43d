"""How close a slot is to the input of a task."""

from __future__ import annotations

from typing import Literal

#: "anywhere": the task has no input to be close to.
Level = Literal["node-local", "rack-local", "remote", "anywhere"]
