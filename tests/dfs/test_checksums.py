"""Checksums from a block's file to its reader: the right bytes, or an error."""

from __future__ import annotations

import functools
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import PeerError
from railyard.dfs.blockfile import READ_BYTES, ReplicaDamaged
from railyard.dfs.checksums import (
    CHECKED_BYTES,
    CheckedRange,
    WrongChecksum,
    pack_sums,
    piece_starts,
    sums_of,
    unpack_sums,
)
from railyard.dfs.datanode.sending import BlockSource
from railyard.dfs.datanode.store import BlockStore
from tests.dfs.blocks import write

DATA = random.Random(1).randbytes(3 * CHECKED_BYTES + 777)
#: Long enough to be read in several goes.
LONG = random.Random(2).randbytes(2 * READ_BYTES + CHECKED_BYTES + 777)
#: A few bytes; ends of pieces and the bytes beside them; anything.
places = st.one_of(
    st.integers(0, 20),
    st.builds(lambda n, d: n * CHECKED_BYTES + d, st.integers(1, 3), st.integers(-2, 2)),
    st.integers(0, len(DATA)),
)


def cuts(view, seed):
    """Split ``view`` into parts of random sizes."""
    rng = random.Random(seed)
    most = rng.choice([2_000, 50_000, 300_000])
    while len(view):
        size = rng.randint(1, most)
        yield view[:size]
        view = view[size:]


def stored(folder, data, block=7):
    store = BlockStore(folder)
    write(store, block, data)
    return store


def sums_for(block, offset, length):
    return sums_of(block, [memoryview(DATA)[offset : offset + length]], offset)


@settings(max_examples=60)
@given(first=places, last=places, seed=st.integers())
def test_a_range_in_parts_of_any_size_is_let_through_whole(first, last, seed):
    offset, end = sorted((first, last))
    if offset == end:
        return
    length = end - offset
    checked, got = CheckedRange(7, offset, length, sums_for(7, offset, length)), b""
    for part in cuts(memoryview(DATA)[offset:end], seed):
        for right in checked.add(part):
            got += right
            assert len(right)
        assert (offset + len(got)) % CHECKED_BYTES == 0 or len(got) in (0, length)
    assert got == DATA[offset:end]


@settings(max_examples=60)
@given(first=places, last=places, where=st.floats(0, 0.999), seed=st.integers())
def test_a_wrong_byte_is_never_let_through(first, last, where, seed):
    offset, end = sorted((first, last))
    if offset == end:
        return
    wrong = offset + int(where * (end - offset))
    changed = bytearray(DATA)
    changed[wrong] ^= 1 << seed % 8
    checked = CheckedRange(7, offset, end - offset, sums_for(7, offset, end - offset))
    got, why = b"", ""
    for part in cuts(memoryview(changed)[offset:end], seed):
        try:
            got += b"".join(checked.add(part))
        except WrongChecksum as error:
            why = str(error)
            break
    assert why == f"block 7: wrong checksum at {wrong - wrong % CHECKED_BYTES}"
    assert DATA[offset : offset + len(got)] == got


@pytest.mark.parametrize("block", [0, 8, 2**40])
def test_the_bytes_of_another_block_are_wrong(block):
    checked = CheckedRange(block, 0, len(DATA), sums_for(7, 0, len(DATA)))
    with pytest.raises(WrongChecksum, match=f"block {block}: wrong checksum at 0"):
        checked.add(memoryview(DATA))


def test_checksums_travel_as_many_as_there_are_pieces():
    for offset, length in [(0, 1), (0, len(DATA)), (CHECKED_BYTES - 1, 2), (70_000, 100_000)]:
        sums = sums_for(7, offset, length)
        assert len(sums) == len(piece_starts(offset, length))
        packed = pack_sums(sums)
        assert unpack_sums(memoryview(packed), offset, length) == sums
        for other in (None, b"", packed[:-1], packed + b"1234"):
            with pytest.raises(PeerError, match=f"need {len(packed)} for {length} bytes"):
                unpack_sums(other, offset, length)


# From a file to a reader ---------------------------------------------------------------------
def travel(store, offset, length, sizes=lambda: CHECKED_BYTES * 5, between=lambda got: None):
    """(bytes that a reader gets of a range, its error)"""
    got, errors = b"", []
    try:
        source = BlockSource(store, 7, offset, length, errors.append)
    except ReplicaDamaged as error:
        return got, str(error)
    checked = CheckedRange(7, offset, length, unpack_sums(source.packed_sums, offset, length))
    try:
        while source.left:
            between(got)
            for right in checked.add(memoryview(source.read(sizes()))):
                got += right
    except ReplicaDamaged as error:
        return got, str(error) if errors == [error] else "the DataNode got no error"
    except WrongChecksum as error:
        return got, str(error)
    finally:
        source.close()
    return got, ""


@settings(max_examples=60)
@given(first=places, last=places, seed=st.integers())
def test_any_range_of_a_block_travels(tmp_path_factory, first, last, seed):
    offset, end = sorted((first, last))
    if offset == end:
        return
    store = stored(tmp_path_factory.mktemp("b"), DATA)
    rng = random.Random(seed)
    got = travel(store, offset, end - offset, lambda: rng.randint(1, 2 * CHECKED_BYTES))
    assert got == (DATA[offset:end], "")


@pytest.mark.parametrize(("offset", "end"), [(0, len(LONG)), (5, 2 * READ_BYTES), (70_000, 70_010)])
def test_a_long_block_is_read_piece_by_piece_and_its_file_is_closed(tmp_path, offset, end):
    store = stored(tmp_path, LONG)
    read = []
    assert travel(store, offset, end - offset, between=read.append) == (LONG[offset:end], "")
    BlockSource(store, 7, offset, end - offset, read.append).close()


def test_a_block_that_is_deleted_while_it_is_sent_is_sent_whole(tmp_path):
    store = stored(tmp_path, LONG)
    assert travel(store, 0, len(LONG), between=lambda _: store.delete(7)) == (LONG, "")


def test_a_block_cut_short_while_it_is_sent_is_an_error_and_never_wrong(tmp_path):
    store = stored(tmp_path, LONG)
    sound = (tmp_path / "b7").read_bytes()
    ends = {0, 1, len(LONG), len(LONG) - 1, len(sound) - 1, len(sound)}
    for size in sorted({*range(0, len(sound), 70_001), *ends}):
        cut = functools.partial(os.truncate, tmp_path / "b7", size)
        got, why = travel(store, 0, len(LONG), between=lambda _, cut=cut: cut())
        assert LONG.startswith(got)
        assert (got == LONG) == (size >= len(LONG)) == (not why)
        (tmp_path / "b7").write_bytes(sound)


@pytest.mark.parametrize("at", [0, READ_BYTES - 1, READ_BYTES, 2 * READ_BYTES + 5])
def test_a_block_overwritten_while_it_is_sent_is_an_error_and_never_wrong(tmp_path, at):
    store = stored(tmp_path, LONG)

    def overwrite(got):
        if len(got) >= READ_BYTES // 2:
            with (tmp_path / "b7").open("r+b") as file:
                file.seek(at)
                file.write(b"other")

    got, why = travel(store, 0, len(LONG), between=overwrite)
    assert LONG.startswith(got)
    assert (got == LONG) != ("wrong checksum" in why)


def test_what_was_read_is_private(tmp_path):
    store = stored(tmp_path, DATA)
    data = store.read(7, 0, len(DATA))
    with (tmp_path / "b7").open("r+b") as file:
        file.write(bytes(len(DATA)))
    os.truncate(tmp_path / "b7", 0)
    assert data == DATA
