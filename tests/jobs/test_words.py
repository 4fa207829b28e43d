"""WordCount against an independent count, with and without combining; random text."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.jobs.local import run_locally
from railyard.jobs.samples.words import wordcount
from railyard.jobs.samples.words.textgen import TextGen
from railyard.jobs.samples.words.wordcount import WordCount
from railyard.jobs.samples.words.wordtable import WordTable

SPACE = st.sampled_from([b" ", b"\n", b"\t", b"\r\n", b"\x0b", b"\x0c", b"  "])
#: lengths around the limits of 8 and 15 bytes, few letters, and bytes that are easily mistaken
WORD = st.sampled_from(
    b"a b \0 a\0 \xff\xfe \xc2\xa0 \x1c \x85 abcdefgh abcdefgh\0 abcdefghi abcdefghijklmno"
    b" abcdefghijklmnop xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx".split(b" ")
) | st.binary(min_size=1, max_size=20).map(lambda word: b"".join(word.split()) or b"z")
TEXT = st.lists(st.tuples(WORD, SPACE), max_size=80).map(
    lambda parts: b"".join(word + space for word, space in parts)
)


def counts_of(outputs: list[bytes]) -> dict[bytes, int]:
    counts = {}
    for output in outputs:
        rows = [line.split(b"\t") for line in output.split(b"\n")[:-1]]
        words = [word for word, _ in rows]
        assert words == sorted(words)
        assert not counts.keys() & set(words)
        counts.update((word, int(count)) for word, count in rows)
    return counts


@given(blocks=st.lists(TEXT, max_size=4))
def test_a_table_counts_as_split_does(blocks):
    table = WordTable()
    expected = Counter()
    for block in blocks:
        table.add(block)
        expected.update(block.split())
    words, counts = table.counts()
    assert dict(zip(words, counts, strict=True)) == expected
    assert len(words) == len(expected)
    assert table.words == expected.total()


def test_words_that_share_a_slot_are_kept_apart():
    words = [b"%06d" % number for number in range(300_000)]  # more than the table has slots
    table = WordTable()
    table.add(b" ".join(words) + b"\n")
    table.add(b" ".join(words[:1000]))
    found, counts = table.counts()
    assert dict(zip(found, counts, strict=True)) == Counter([*words, *words[:1000]])


@given(text=TEXT, reduces=st.integers(1, 4), split=st.integers(3, 200), combined=st.booleans())
def test_any_text_is_counted_as_an_independent_count_does(text, reduces, split, combined):
    if not text:
        return
    run = run_locally(WordCount(combined=combined), {"/in": text}, reduces, split)
    expected = Counter(text.split())
    assert counts_of(run.outputs["r"]) == expected
    lines = text.count(b"\n") + (not text.endswith(b"\n"))
    assert (run.counters["m.records_in"], run.counters["m.pairs_out"]) == (lines, expected.total())
    shipped = run.counters["m.pairs_out"] - run.counters.get("m.combined_away", 0)
    assert run.counters["r.records_in"] == shipped
    assert run.counters["r.keys_in"] == len(expected)
    made = sum((len(word) + 9) * count for word, count in expected.items())
    assert run.counters.get("m.bytes_out", made) == made


@pytest.mark.parametrize("combined", [True, False])
def test_generated_text_is_counted(combined):
    parts = run_locally(TextGen(size=300_000, parts=3), {}).outputs["m"]
    files = {f"/in/{number}": part for number, part in enumerate(parts)}
    run = run_locally(WordCount(combined=combined), files, reduces=3, split_bytes=40_000)
    expected = sum((Counter(part.split()) for part in parts), Counter())
    assert counts_of(run.outputs["r"]) == expected
    shipped = run.counters["shipped"]
    assert run.counters["words"] == expected.total()
    assert shipped < expected.total() / 2 if combined else shipped == expected.total()


def test_text_has_the_size_asked_for_and_ends_its_lines():
    parts = run_locally(TextGen(size=100_003, parts=4), {}).outputs["m"]
    assert [len(part) for part in parts] == [25_000, 25_001, 25_001, 25_001]
    assert all(part.endswith(b"\n") for part in parts)
    assert len(set(parts)) == 4
    assert max(map(len, parts[0].splitlines())) < 200


def test_text_depends_on_the_seed_alone():
    first, again, other = (
        run_locally(TextGen(size=10_000, seed=seed), {}).outputs["m"] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_text_has_frequent_and_rare_words():
    (text,) = run_locally(TextGen(size=1_000_000), {}).outputs["m"]
    counts = [count for _, count in Counter(text.split()).most_common()]
    assert counts[0] > 8 * counts[20]
    assert len(counts) > 10_000


def test_text_refuses_more_parts_than_bytes():
    with pytest.raises(UsageError, match="parts = 3: need 1 to the number of bytes"):
        TextGen(size=2, parts=3)


def test_the_parameter_that_the_documentation_names_is_one_that_it_has():
    for text in (wordcount.__doc__, WordCount.__doc__):
        [(name, value)] = re.findall(r"`(\w+)=(\w+)`", text)
        assert isinstance(getattr(WordCount(**{name: value == "true"}), name), bool)
