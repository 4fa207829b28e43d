"""Checksums from a block's file to its reader: the right bytes, or an error."""

from __future__ import annotations

import functools
import os
import random
import resource

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import PeerError
from railyard.dfs.blockfile import (
    CHECKED_BYTES,
    READ_BYTES,
    CheckedRange,
    ReplicaDamaged,
    ReplicaError,
    WrongChecksum,
    pack_sums,
    piece_starts,
    stored_length,
    sums_of,
    unpack_sums,
)
from railyard.dfs.datanode.store import BlockStore
from railyard.dfs.datanode.transfers import BlockSource
from tests.dfs.blocks import create, write

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


@settings(max_examples=40)
@given(length=st.integers(1, len(DATA)), data=st.data())
def test_any_range_of_any_block_comes_back(tmp_path_factory, length, data):
    store = BlockStore(tmp_path_factory.mktemp("b"))
    write(store, 7, DATA[:length])
    offset = data.draw(st.integers(0, length - 1))
    size = data.draw(st.integers(1, length - offset))
    assert store.read(7, offset, size) == DATA[offset : offset + size]


def test_blocks_are_found_again_and_unfinished_ones_are_not(tmp_path):
    store = BlockStore(tmp_path)
    write(store, 12, DATA)
    write(store, 3, b"x")
    unfinished = create(store, 4, b"whole")
    unfinished.write(memoryview(b"wh"))
    (tmp_path / "notes.txt").write_text("not a block")
    again = BlockStore(tmp_path)
    assert [(held.block, held.stored_length) for held in again.held()] == [(3, 1), (12, len(DATA))]
    assert not list(tmp_path.glob("*.part"))
    create(again, 4, b"x").abort()
    again.delete(12)
    again.delete(12)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b3", "notes.txt"]
    unfinished.abort()


def test_a_block_is_written_once(tmp_path):
    store = BlockStore(tmp_path)
    write(store, 1, b"x")
    with pytest.raises(PeerError, match=r"block 1 is in .* already"):
        create(store, 1, b"x")
    begun = create(store, 2, b"x")
    with pytest.raises(PeerError, match="block 2 is being written"):
        create(store, 2, b"x")
    begun.abort()


@pytest.mark.parametrize("wrong", [0, CHECKED_BYTES - 1, CHECKED_BYTES, len(DATA) - 1])
def test_only_what_the_writer_sent_is_written(tmp_path, wrong):
    store = BlockStore(tmp_path)
    writer = create(store, 1, DATA)
    arrived = bytearray(DATA)
    arrived[wrong] ^= 1
    place = wrong - wrong % CHECKED_BYTES
    writer.write(memoryview(arrived)[:place])
    with pytest.raises(WrongChecksum, match=f"block 1: wrong checksum at {place}"):
        writer.write(memoryview(arrived)[place:])
    assert (tmp_path / "b1.part").read_bytes() == DATA[:place]
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def whole(folder):
    return (folder / "b1").read_bytes()


@pytest.mark.parametrize("length", [1, CHECKED_BYTES - 1, CHECKED_BYTES, CHECKED_BYTES + 1])
def test_a_block_of_any_length_is_found_again(tmp_path, length):
    store = BlockStore(tmp_path)
    write(store, 5, DATA[:length])
    assert [held.stored_length for held in BlockStore(tmp_path).held()] == [length]


@given(length=st.integers(1, 2**40))
def test_the_length_follows_from_the_files_size(length):
    assert stored_length(length + 4 * -(-length // CHECKED_BYTES) + 4) == length


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda p: flip(p / "b1", 2 * CHECKED_BYTES + 5), f"wrong checksum at {2 * CHECKED_BYTES}"),
        (lambda p: flip(p / "b1", len(DATA) - 1), f"wrong checksum at {3 * CHECKED_BYTES}"),
        (lambda p: flip(p / "b1", len(DATA)), "wrong checksum at 0"),
        (lambda p: flip(p / "b1", -1), "not that of a block"),
        (lambda p: (p / "b1").write_bytes(whole(p)[:-1]), "not that of a block"),
        (lambda p: (p / "b1").write_bytes(whole(p)[1:] + b"\n"), "not that of a block"),
        (lambda p: (p / "b1").write_bytes(whole(p) + b"\n"), "not that of a block"),
        (lambda p: (p / "b1").write_bytes(b""), "too short to be a block"),
        (lambda p: (p / "b1").write_bytes(whole(p)[:-1] + b"1"), "b'RYC1', is not that of a block"),
        (lambda p: (p / "b1").write_bytes(whole(p) * 2), "wrong checksum"),
        (lambda p: (p / "b1").unlink(), "No such file"),
    ],
)
def test_damage_is_seen(tmp_path, damage, why):
    store = BlockStore(tmp_path)
    write(store, 1, DATA)
    damage(tmp_path)
    with pytest.raises(ReplicaDamaged, match=why):
        store.read(1, 0, len(DATA))


@pytest.mark.parametrize("length", [1, 300])
def test_every_flipped_byte_of_a_block_file_is_found(tmp_path, length):
    store, data = BlockStore(tmp_path), DATA[:length]
    write(store, 1, data)
    sound = whole(tmp_path)
    for at in range(len(sound)):
        changed = bytearray(sound)
        changed[at] ^= 1 << at % 8
        (tmp_path / "b1").write_bytes(changed)
        with pytest.raises(ReplicaDamaged):
            store.read(1, 0, length)


def test_blocks_whose_files_were_swapped_are_damaged(tmp_path):
    store = BlockStore(tmp_path)
    write(store, 1, DATA)
    write(store, 2, DATA[::-1])
    write(store, 3, DATA)
    for other in (2, 3):  # even if it has the same bytes: who knows which others it has not
        kept = whole(tmp_path)
        (tmp_path / "b1").write_bytes((tmp_path / f"b{other}").read_bytes())
        for offset in range(0, len(DATA), CHECKED_BYTES):
            with pytest.raises(ReplicaDamaged, match=f"wrong checksum at {offset}"):
                store.read(1, offset, 1)
        (tmp_path / "b1").write_bytes(kept)
    assert store.read(1, 0, len(DATA)) == DATA


def test_a_pipe_in_place_of_a_block_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / "b1")
    with pytest.raises(ReplicaError):
        BlockStore(tmp_path).read(1, 0, 1)


def test_descriptors_that_have_run_out_are_no_damage(tmp_path):
    store = BlockStore(tmp_path)
    write(store, 1, DATA)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        with pytest.raises(ReplicaError, match="Too many open files") as error:
            store.read(1, 0, len(DATA))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not isinstance(error.value, ReplicaDamaged)
    assert store.read(1, 0, len(DATA)) == DATA


def test_what_cannot_be_opened_is_no_damage(tmp_path):
    store = BlockStore(tmp_path)
    (tmp_path / "b1").mkdir()
    with pytest.raises(ReplicaError, match="Is a directory") as error:
        store.read(1, 0, 1)
    assert not isinstance(error.value, ReplicaDamaged)


def test_damage_elsewhere_does_not_matter(tmp_path):
    store = BlockStore(tmp_path)
    write(store, 1, DATA)
    flip(tmp_path / "b1", 2 * CHECKED_BYTES)
    assert store.read(1, 0, 2 * CHECKED_BYTES) == DATA[: 2 * CHECKED_BYTES]


@pytest.mark.parametrize(("offset", "length"), [(0, 0), (-1, 5), (0, 99), (6, 5), (2**70, 1)])
def test_ranges_that_are_not_in_the_block(tmp_path, offset, length):
    store = BlockStore(tmp_path)
    write(store, 1, b"0123456789")
    with pytest.raises(ReplicaError, match="has 10 bytes"):
        store.read(1, offset, length)


def test_a_reader_keeps_a_deleted_block(tmp_path):
    store = BlockStore(tmp_path)
    write(store, 1, DATA)
    view = store.read(1, 10, 70_000)
    store.delete(1)
    assert view == DATA[10:70_010]
