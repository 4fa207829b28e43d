"""Helpers that write blocks to a store."""

import random

from railyard.dfs.blockfile import sums_of


def create(store, block, data):
    """Start writing a block with the content ``data``."""
    return store.create(block, len(data), sums_of(block, [memoryview(data)]))


def write(store, block, data):
    """Write a block, in pieces of random sizes."""
    writer = create(store, block, data)
    rng, start = random.Random(2), 0
    while start < len(data):
        size = rng.randint(1, 100_000)
        writer.write(memoryview(data)[start : start + size])
        start += size
    writer.seal()
    writer.publish()
