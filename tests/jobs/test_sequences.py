"""Sequence-Count and Ranked-Inverted-Index against the plainest programs; articles; wrong lines."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.jobs.local import BytesReader, run_locally
from railyard.jobs.samples.checkedlines import check_lines
from railyard.jobs.samples.sample import GivenFile
from railyard.jobs.samples.sequences import check
from railyard.jobs.samples.sequences.count import SequenceCount
from railyard.jobs.samples.sequences.documents import counted_sequences
from railyard.jobs.samples.sequences.generate import ArticlesGen
from railyard.jobs.samples.sequences.rank import RankedInvertedIndex
from railyard.jobs.taskio import BadInput

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


def test_the_check_shares_nothing_with_the_jobs():
    imports = re.findall(r"^(?:from|import) .*", Path(check.__file__).read_text(), re.MULTILINE)
    assert not [line for line in imports if "samples.sequences" in line]


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
