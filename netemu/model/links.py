"""Paths over links, which are numbers, and the load that rows of flows put on them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from railyard.netemu.model.arrays import Floats, Numbers

#: How far apart a flow's ends are.
Reach = Literal["local", "rack", "cross_rack", "client"]
#: What carries bytes between racks.
Way = Literal["eps", "ocs", "wan"]

#: The categories of the results' "bytes": local, rack, cross_rack and its way, or client: of those
#: outside the racks.
Categories = tuple[Reach] | tuple[Reach, Way]

#: The numbers of links that are crossed one after the other, eight bytes each: of many of these, an
#: array is made in a tenth of the time that it takes with tuples.
Path = bytes


def pack(links: Iterable[int]) -> Path:
    """A path over these links."""
    return array("q", links).tobytes()


def unpack(path: Path) -> Sequence[int]:
    """The links of a path."""
    return array("q", path)


def stack(paths: Sequence[Path], filler: int) -> NDArray[np.int64]:
    """The links of paths, [path, position]; short paths are filled up with ``filler``."""
    lengths = set(map(len, paths))
    longest = max(lengths, default=0)
    if len(lengths) > 1:
        paths = [path.ljust(longest, b"\xff") for path in paths]  # with -1
    links = np.frombuffer(b"".join(paths), np.int64).reshape(len(paths), longest // 8)
    return links if len(lengths) <= 1 else np.where(links < 0, filler, links)


class Route(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The links that a flow takes."""

    path: Path  #: empty within a node
    counted_as: Categories  #: how far apart its ends are, and what carries bytes between its racks

    @property
    def links(self) -> tuple[int, ...]:
        """The links' numbers."""
        return tuple(unpack(self.path))

    @property
    def crosses_racks(self) -> bool:
        """Whether its ends are in different racks."""
        return len(self.counted_as) > 1


def sum_by_link(paths: Numbers, values: Floats, links: int) -> Floats:
    """Sums of the rows' values, by the links that the rows cross."""
    total = np.bincount(paths[0], values, links).astype(np.float64, copy=False)
    for position in paths[1:]:
        total += np.bincount(position, values, links)
    return total
