"""WordCount against an independent count, with and without combining; random text."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.jobs.local import BytesReader, run_locally
from railyard.jobs.plan import GivenFile
from railyard.jobs.samples import wordcount
from railyard.jobs.samples.sequences import RankedInvertedIndex, SequenceCount, counted_sequences
from railyard.jobs.samples.tasks import ArticlesGen, TextGen, check_lines
from railyard.jobs.samples.wordcount import WordCount, WordTable
from railyard.jobs.taskio import BadInput

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


# Sequence-Count and Ranked-Inverted-Index against the plainest programs; articles; wrong lines.


WORDS = st.lists(st.sampled_from(["a", "b", "ü", "\x1c", "|"]), max_size=9).map(" ".join)
LINES = st.lists(
    st.tuples(st.sampled_from(["", "A\t", "B c\t", "\t"]), WORDS).map("".join), max_size=8
)


def lines_of(job, files, reduces=1, split_bytes=10_000):
    run = run_locally(job, files, reduces, split_bytes)
    return b"".join(run.outputs["r"]).decode().split("\n")[:-1]


def counted(files):
    """{(sequence, document): count} as one reads it in the files."""
    counts = Counter()
    for path, data in files.items():
        for line in data.decode().split("\n"):
            document, text = line.split("\t") if "\t" in line else (path.split("/")[-1], line)
            words = text.encode().split()
            for first, second, third in zip(words, words[1:], words[2:], strict=False):
                counts[b" ".join((first, second, third)).decode(), document] += 1
    return counts


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(LINES, min_size=1, max_size=3),
    reduces=st.integers(1, 3),
    split_bytes=st.sampled_from([1, 7, 10_000]),
)
def test_sequences_are_counted_by_document_and_ranked(texts, reduces, split_bytes):
    files = {f"/in/{n}.txt": "\n".join([*text, "z"]).encode() for n, text in enumerate(texts)}
    expected = counted(files)
    found = lines_of(SequenceCount(), files, reduces, split_bytes)
    rows = [line.split("\t") for line in found]
    assert {(s, d): int(count) for s, d, count in rows} == expected
    assert len(rows) == len(expected)
    index = {}
    for (sequence, document), count in expected.items():
        index.setdefault(sequence, []).append((-count, document.encode()))
    ranked = [
        "\t".join([sequence, *(f"{-n} {name.decode()}" for n, name in sorted(index[sequence]))])
        for sequence in index
    ]
    counts = {"/counts": "".join(f"{line}\n" for line in found).encode() or b"x y z\td\t1\n"}
    expected_index = ranked or ["x y z\t1 d"]
    assert sorted(lines_of(RankedInvertedIndex(), counts, reduces, split_bytes)) == sorted(
        expected_index
    )


def test_a_document_of_two_words_has_no_sequence():
    files = {"/two": b"Title\tonly two\n", "/one": b"word\n\n", "/crlf": b"T\ta b c\r\n"}
    assert lines_of(SequenceCount(), files) == ["a b c\tT\t1"]
    files.pop("/crlf")
    assert lines_of(SequenceCount(), files, reduces=2) == []


def test_documents_are_ranked_by_count_and_then_by_name():
    counts = b"a b c\tB\t2\na b c\tA x\t2\nb c d\tA x\t1\na b c\tC\t11\n"
    assert lines_of(RankedInvertedIndex(), {"/in": counts}) == [
        "a b c\t11 C\t2 A x\t2 B",
        "b c d\t1 A x",
    ]


@pytest.mark.parametrize("bad", ["a b\tD\t1", "a b c\tD", "a b c\tD\t-1", "a b c d\tD\t1", ""])
def test_a_line_that_is_no_count_is_named_by_file_and_line(bad):
    rows = [f"w{n} x y\tdocument {n}\t1\n" for n in range(40)]
    data = "".join([*rows[:30], f"{bad}\n", *rows[30:]]).encode()
    for split_bytes in (10, 200, 10_000):
        with pytest.raises(BadInput, match=r"^/in:31: .*: need word word word<TAB>document<TAB>"):
            run_locally(RankedInvertedIndex(), {"/in": data}, 1, split_bytes)
    with pytest.raises(BadInput, match=r"^mine\.txt:31: "):
        check_lines(counted_sequences, [GivenFile("", "mine.txt", BytesReader(data))])
    check_lines(counted_sequences, [GivenFile("", "mine.txt", BytesReader("".join(rows).encode()))])


def test_articles_have_titles_of_their_own_and_unequal_lengths():
    made = run_locally(ArticlesGen(size=300_000, parts=3, seed=5), {}).outputs["m"]
    assert made == run_locally(ArticlesGen(size=300_000, parts=3, seed=5), {}).outputs["m"]
    assert made != run_locally(ArticlesGen(size=300_000, parts=3, seed=6), {}).outputs["m"]
    assert [abs(len(part) - 100_000) < 60 for part in made] == [True] * 3
    articles = [line.split(b"\t") for line in b"".join(made).splitlines()]
    titles = [title for title, _ in articles]
    assert len(set(titles)) == len(titles)
    lengths = sorted(len(text.split()) for _, text in articles)
    assert 150 < lengths[len(lengths) // 2] < 500
    assert lengths[-1] > 4 * lengths[len(lengths) // 2]
