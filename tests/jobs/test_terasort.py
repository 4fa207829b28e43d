"""The sort benchmark: its records, its sort, its validation."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.cluster.messages import TaskSpec
from railyard.jobs.local import BytesReader, LocalIO, run_locally
from railyard.jobs.model import run_task
from railyard.jobs.samples.terasort import (
    Partitioner,
    TeraGen,
    TeraSort,
    TeraValidate,
    as_records,
    checksum,
    generate,
    key_order,
    sample_cuts,
)
from railyard.jobs.taskio import BadInput


def records_of(keys: list[bytes]) -> bytes:
    """Records with these keys, each with its place as filler."""
    return b"".join(key + b"%090d" % place for place, key in enumerate(keys))


def keys_of(data: bytes) -> list[bytes]:
    return [data[at : at + 10] for at in range(0, len(data), 100)]


def reference(row: int) -> bytes:
    """A record as gensort's documentation describes it, made step by step."""
    number = 0
    for _ in range(row + 1):
        number = number * 0x2360ED051FC65DA44385DF649FCCF645 + 0x4A696D47726179524950202020202001
        number %= 2**128
    low_digits = f"{number:032X}"[-12:]
    return (
        number.to_bytes(16, "big")[:10]
        + b"\x00\x11"
        + b"%032X" % row
        + b"\x88\x99\xaa\xbb"
        + "".join(digit * 4 for digit in low_digits).encode()
        + b"\xcc\xdd\xee\xff"
    )


# Keys with long common prefixes, heavy ties, and zero bytes, which numpy's strings drop.
KEY = st.builds(
    lambda prefix, suffix: (prefix + suffix).ljust(10, b"\0")[:10],
    st.sampled_from([b"", b"\0", b"aaaaaaaa", b"aaaaaaab", b"\xff" * 8, b"aaaa"]),
    st.binary(max_size=10) | st.sampled_from([b"", b"\0", b"\0\0", b"\x01", b"zz"]),
)
KEYS = st.lists(KEY, max_size=60)


MADE = generate(0, 40_050)


# TeraGen -----------------------------------------------------------------------------------------
def test_records_are_those_of_the_benchmark():
    # What Hadoop's TeraValidate prints for the 1,000,000 records of its TeraGen.
    assert checksum(generate(0, 1_000_000).data.cast("B")) == 0x7A27E2D0D55DE


def test_records_follow_the_published_description():
    made = generate(0, 40)
    assert [bytes(record) for record in made] == [reference(row) for row in range(40)]


@given(first=st.integers(0, 40_000), rows=st.integers(0, 50))
def test_any_row_can_be_made_alone(first, rows):
    assert (generate(first, rows) == MADE[first : first + rows]).all()


def test_rows_beyond_32_bits_are_made():
    row = 2**40 + 3
    assert bytes(generate(row, 1)[0][12:44]) == b"%032X" % row
    assert (generate(2**40, 5)[3] == generate(row, 1)[0]).all()


def test_ascii_records_are_printable_lines():
    data = bytes(generate(7, 300, ascii_only=True).data)
    lines = data.split(b"\r\n")
    assert lines.pop() == b""
    assert all(len(line) == 98 and line.decode("ascii").isprintable() for line in lines)
    assert len(set(keys_of(data))) == 300


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_parts_make_up_the_whole_and_count_it(parts):
    run = run_locally(TeraGen(rows=50_000, parts=parts), {})
    whole = bytes(generate(0, 50_000).data)
    assert b"".join(run.outputs["m"]) == whole
    crcs = (zlib.crc32(whole[at : at + 100]) for at in range(0, len(whole), 100))
    assert run.counters == {"records": 50_000, "checksum": sum(crcs)}


def test_seeds_give_different_records():
    first, second = (run_locally(TeraGen(rows=5, seed=seed), {}).outputs["m"] for seed in (1, 2))
    assert not set(keys_of(first[0])) & set(keys_of(second[0]))


@pytest.mark.parametrize(
    "params", [{"rows": 0}, {"rows": 2, "parts": 3}, {"rows": 1, "seed": 0}, {"parts": 1}]
)
def test_generator_refuses_what_makes_no_sense(params):
    with pytest.raises(UsageError, match="need"):
        TeraGen(**params)


# TeraSort ----------------------------------------------------------------------------------------
@given(keys=KEYS)
def test_order_is_by_the_whole_key_and_stable(keys):
    order = key_order(as_records(records_of(keys)))
    assert order.tolist() == sorted(range(len(keys)), key=lambda place: (keys[place], place))


@given(keys=KEYS, cuts=st.lists(KEY, max_size=6).map(sorted))
def test_partition_is_the_number_of_cuts_up_to_the_key(keys, cuts):
    numbers = Partitioner(cuts).numbers(as_records(records_of(keys)))
    assert numbers.tolist() == [sum(cut <= key for cut in cuts) for key in keys]


def test_many_partitions_are_distinguished():
    cuts = sorted(bytes(key) for key in generate(0, 400)[:, :10])
    numbers = Partitioner(cuts).numbers(generate(1000, 500))
    expected = [sum(cut <= key for cut in cuts) for key in keys_of(bytes(generate(1000, 500).data))]
    assert numbers.tolist() == expected


@given(
    keys=st.lists(KEY, min_size=1, max_size=60),
    cuts=st.lists(KEY, max_size=4).map(sorted),
    split=st.integers(1, 2500),
)
def test_a_whole_sort_is_right(keys, cuts, split):
    data = records_of(keys)
    run = run_locally(TeraSort(cuts=cuts), {"/in": data}, split_bytes=split)
    parts = run.outputs["r"]
    assert len(parts) == len(cuts) + 1
    out = b"".join(parts)
    assert keys_of(out) == sorted(keys)
    assert run.counters["m.records_in"] == run.counters["r.records_in"] == len(keys)
    assert sorted(out[at : at + 100] for at in range(0, len(out), 100)) == sorted(
        data[at : at + 100] for at in range(0, len(data), 100)
    )


def test_a_large_sort_is_right_and_its_output_comes_in_pieces():
    data = bytes(generate(0, 100_000).data)
    fetched = [("m", data[:3_000_000]), ("m", data[3_000_000:])]
    io = LocalIO({}, fetched)
    result = run_task(TeraSort(cuts=[]), TaskSpec(stage="r", index=0, inputs=2), io)
    pieces = [bytes(piece) for piece in result.output]
    assert len(pieces) == 3
    assert keys_of(b"".join(pieces)) == sorted(keys_of(data))
    assert io.reported == sorted(io.reported)


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
def test_cuts_part_the_records_evenly(partitions):
    data = bytes(generate(0, 30_000).data)
    files = [BytesReader(data[:700_000]), BytesReader(b""), BytesReader(data[700_000:])]
    cuts = sample_cuts(files, partitions)
    assert len(cuts) == partitions - 1
    sizes = np.bincount(Partitioner(cuts).numbers(as_records(data)), minlength=partitions)
    assert sizes.min() > 0.9 * 30_000 / partitions
    assert sizes.max() < 1.1 * 30_000 / partitions


def test_a_sample_is_bounded_and_spread():
    class Counting(BytesReader):
        read_bytes = 0
        places = 0

        def read(self, offset, length):
            self.read_bytes += length
            self.places += 1
            return super().read(offset, length)

    file = Counting(bytes(generate(0, 200_000).data))
    cuts = sample_cuts([file], 4)
    assert (file.read_bytes, file.places) == (10_000_000, 10)
    assert [round(cut[0] / 64) for cut in cuts] == [1, 2, 3]


def test_cuts_keep_the_zero_bytes_at_their_end():
    data = records_of([b"a".ljust(10, b"\0")] * 4)
    assert sample_cuts([BytesReader(data)], 2) == [b"a".ljust(10, b"\0")]


def test_more_reduces_than_records_are_refused():
    with pytest.raises(UsageError, match="reduces = 5: the input has 3 records"):
        sample_cuts([BytesReader(records_of([b"k" * 10] * 3))], 5)


@pytest.mark.parametrize("cuts", [[b"short"], [b"b" * 10, b"a" * 10]])
def test_cuts_that_are_no_cuts_are_refused(cuts):
    with pytest.raises(UsageError, match="cuts = "):
        TeraSort(cuts=cuts)


def test_a_record_cut_short_names_file_and_offset():
    with pytest.raises(BadInput, match=r"^/in: the record at offset 100 is cut short: 50 of 100"):
        run_locally(TeraSort(cuts=[]), {"/in": bytes(150)})


# TeraValidate ------------------------------------------------------------------------------------
def validate(files: dict[str, bytes], **params: bool) -> tuple[dict[str, list[str]], int]:
    run = run_locally(TeraValidate(**params), files, split_bytes=1_000_030)
    found: dict[str, list[str]] = {}
    for line in run.outputs["r"][0].decode().splitlines():
        name, value = line.split("\t", 1)
        found.setdefault(name, []).append(value)
    return found, run.counters["errors"]


@pytest.fixture(scope="module")
def ordered() -> list[bytes]:
    data = bytes(generate(0, 30_000).data)
    return sorted(data[at : at + 100] for at in range(0, len(data), 100))


def test_an_ordered_output_passes(ordered):
    files = {"/out/part-00000": ordered[:20_000], "/out/part-00001": ordered[20_000:]}
    found, errors = validate({path: b"".join(part) for path, part in files.items()})
    total = sum(zlib.crc32(record) for record in ordered)
    assert found == {"checksum": [f"{total:x}"], "records": ["30000"]}
    assert errors == 0


def test_a_swap_within_a_file_is_found(ordered):
    mixed = [*ordered[:500], ordered[501], ordered[500], *ordered[502:]]
    found, errors = validate({"/out/part-0": b"".join(mixed)})
    before, after = ordered[501][:10].hex(), ordered[500][:10].hex()
    assert found["error"] == [f"misorder in /out/part-0 between {before} and {after}"]
    assert errors == 1


@pytest.mark.parametrize("border", [10_000, 10_001, 20_003])
def test_a_swap_at_a_border_of_splits_is_found(ordered, border):
    mixed = [*ordered[: border - 1], ordered[border], ordered[border - 1], *ordered[border + 1 :]]
    _, errors = validate({"/out/part-0": b"".join(mixed)})
    assert errors == 1


def test_files_in_the_wrong_order_are_found(ordered):
    halves = [b"".join(ordered[15_000:]), b"".join(ordered[:15_000])]
    found, errors = validate({"/out/part-0": halves[0], "/out/part-1": halves[1]})
    (line,) = found["error"]
    assert "in /out/part-0 is followed by" in line
    assert line.endswith("in /out/part-1")
    assert errors == 1


def test_disorder_is_no_matter_when_only_counting(ordered):
    found, errors = validate({"/a": b"".join(reversed(ordered))}, ordered=False)
    assert (found["records"], errors) == (["30000"], 0)
    assert "error" not in found
