"""What a flow scheduler sees: groups of flows, and the links that they want to send over."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import RowTable


class Group(Protocol):
    """Flows that a flow scheduler treats as one.  Arrays have a value for each row.

    Reading ``weights`` and ``paths`` costs nothing; ``remaining_bytes`` is as of now and costs a
    pass over the rows.
    """

    @property
    def key(self) -> str:
        """The coflow's name, or the flow's that has none."""

    @property
    def arrived_s(self) -> float:
        """When its first flow started."""

    @property
    def paths(self) -> Numbers:
        """[position, row]: numbers of the limited links that a row's flows cross.

        Short routes are filled up with the last, unlimited link.
        """

    @property
    def crossed(self) -> int:
        """The links on these paths, as the bits of a number: 1 << link."""

    @property
    def weights(self) -> Floats:
        """[row]: the sum of ``FlowScheduler.weight`` over the row's flows."""

    @property
    def rates(self) -> Floats:
        """[row]: bytes/s per unit of weight, as set last; 0 for rows that are new."""

    @property
    def rate_bytes_per_s(self) -> float:
        """Bytes/s of all its flows together."""

    @property
    def layout(self) -> int:
        """Another number whenever rows have other numbers than before; new ones come last."""

    @property
    def load(self) -> Floats:
        """[link]: bytes/s that it puts on each link, without flows that have ended since."""

    @property
    def only_ended(self) -> bool:
        """Whether nothing but ends of flows has happened since its rates were set."""

    @property
    def circuit_bytes_per_s(self) -> float:
        """The rate of the circuit that its flows share; inf: they go by packets."""

    def class_key(self, row: int) -> Any:
        """``FlowScheduler.class_key`` of a row's flows."""

    def remaining_bytes(self, rows: Numbers | slice = ...) -> Floats:
        """[row]: bytes left to send, more than 0; of these rows only, if they are given."""

    def sent_bytes(self) -> float:
        """Bytes that its flows, finished ones included, have sent in this group by now."""

    def set_rates(self, rates: Floats) -> None:
        """Send at these bytes/s per unit of weight, [row]; inf where nothing limits a row."""

    @property
    def as_rows(self) -> RowGroup | None:
        """Itself, for compiled loops; None if it has no arrays of its own."""


class RowGroup(Group, Protocol):
    """A group as compiled loops see it, which read and write its arrays themselves."""

    first_finish_s: float  #: when the first of its flows ends; void while these have changed

    @property
    def rows(self) -> RowTable:
        """Its arrays, of the columns ``rows.COLUMNS``."""

    @property
    def open_rows(self) -> int:
        """How many rows have flows; others have ended, and stay for a while."""

    @property
    def has_shared_rows(self) -> bool:
        """Whether any row may have several flows."""

    def sent_as_of(self) -> tuple[float, float]:
        """What all flows of the group had sent when it was last noted, and when that was."""

    def timed(
        self,
        bytes_per_s: float,
        first_finish_s: float,
        load: Floats,
        sending: Numbers | None = None,
    ) -> None:
        """Note that its rows have been given rates.

        ``bytes_per_s`` are those of all rows together, ``load`` those on each link.  With
        ``sending``, only these rows will be looked at when some are due.
        """

    def went_ahead(
        self,
        sent_bytes: float,
        sent_s: float,
        bytes_per_s: float,
        first_finish_s: float,
        load: Floats,
        sending: Numbers | None = None,
    ) -> None:
        """Note what has come of its rows, which have gone through several events at once.

        ``sent_bytes`` is what its flows had sent at ``sent_s``; the rest is as in ``timed``.
        """


class Ahead(NamedTuple):
    """What has come of many events that a flow scheduler has computed at once."""

    now_s: float  #: when the last of them was
    events: int
    decide_s: float  #: when to decide again even if nothing happens by then
    ends_s: Floats  #: when each of the rows ended that have
    groups: Numbers  #: their groups' places among ``Traffic.groups``
    rows: Numbers


class Traffic(msgspec.Struct, frozen=True, gc=False):  # 0.1 us to make; a frozen dataclass: 1.4
    """The open groups, and the links that they want to send over."""

    now_s: float
    #: bytes/s of each link; the last one stands for no link, and is unlimited.  Read-only, and the
    #: same array as long as no capacity changes
    capacities: Floats
    groups: Collection[Group]  #: those that have something to send
    #: those of them with other flows than at the last decision
    changed: frozenset[Group]
    #: [link]: whether it is an optical port; for schedulers that use circuits
    is_port: NDArray[np.bool_]
