"""What is reported of circuits: their states and their changes."""

from __future__ import annotations

from typing import Literal, NamedTuple

from railyard.cluster.bounded import Count, Name, RackId, Seconds

Change = Literal["set-up", "up", "down"]


#: The circuits of an emulator in place of one that died have numbers from the next multiple of this
#: on, and so do their changes: by then, the earlier ones are down.
CIRCUITS_OF_ONE = 2**32


class CircuitChange(NamedTuple):
    """Something that happened to a circuit."""

    at_s: Seconds
    #: "set-up": dark from now on; "up": carries from now on, or another coflow uses it from now on
    what: Change
    src: RackId
    dst: RackId
    coflow: Name | None  #: the coflow that uses it; None: none at present
    circuit: Count  #: circuits are numbered as they are set up


class CircuitState(NamedTuple):
    """A circuit as it is now."""

    src: RackId
    dst: RackId
    coflow: str | None  #: the coflow that uses it; None: none at present
    ready_s: float  #: dark until then
