"""Reports to a core where a file's blocks are, in events of bounded size, if a policy uses that.

Never here: how blocks are found.
"""

from __future__ import annotations

from collections.abc import Sequence

from railyard.resourcemanager.driving.coredriver import CoreDriver
from railyard.resourcemanager.interface.events import DATA_BLOCKS_MAX, DataBlock, DataStored


def report_data(
    driver: CoreDriver, path: str, blocks: Sequence[DataBlock], jobs: Sequence[str] = ()
) -> None:
    """Feed ``DataStored`` for a file, unless nobody uses data or all of it is known.

    ``jobs``: the names of those to come that will read it.
    """
    state = driver.core.state
    if not state.uses_data or not state.stored.differs(path, blocks):
        return
    for first in range(0, len(blocks), DATA_BLOCKS_MAX):
        last = first + DATA_BLOCKS_MAX
        readers = tuple(jobs) if last >= len(blocks) else ()
        part = tuple(blocks[first:last])
        driver.feed(DataStored(path=path, blocks=part, first=first, jobs=readers))
