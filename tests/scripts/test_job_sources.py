"""Jobs from notebooks and scripts: what is shipped of them."""

import linecache
import sys
from pathlib import Path
from types import ModuleType

import pytest

import railyard
from railyard.jobs.package import load_job, pack_file
from railyard.scripts.api.sources import job_word, job_words

CELL = '''
import re
from collections import Counter as Count
import railyard

SEPARATORS = (",", ";")
PATTERN = re.compile("x")
limit = 3                                     # not used by the job

def split(line):
    for each in SEPARATORS:
        line = line.replace(each, " ")
    return shorten(line).split()

def shorten(line):
    return line if len(line) < 80 else split(line[:79])

class Base(railyard.Job):
    def reduce(self, word, counts):
        yield word, sum(counts)

class LongWords(Base):
    """Counts words."""

    min_letters: int = 8

    def map(self, line: str):
        limit = self.min_letters
        for word, number in Count(split(line)).items():
            if len(word) >= limit:
                yield word, number

class Matching(Base):
    def map(self, line: str):
        yield PATTERN.sub("", line), 1

if limit:
    class Inner(Base):
        """In a block."""

        def map(self, line: str):
            yield line, 1
'''


@pytest.fixture
def cell(monkeypatch):
    """The names of a notebook whose one cell this is."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    name = "<cell 1>"
    monkeypatch.setitem(linecache.cache, name, (len(CELL), None, CELL.splitlines(True), name))
    exec(compile(CELL, name, "exec"), main.__dict__)
    return main


def mapped(word, line):
    file, _, job_class = word.partition(",")[0].partition(":")
    params = dict(part.removeprefix("param.").split("=") for part in word.split(",")[1:])
    return list(load_job(pack_file(Path(file), job_class, params)).map(line))


def test_a_class_is_written_with_what_it_uses(cell, tmp_path):
    word = job_word(cell.LongWords(min_letters=4), tmp_path)
    assert word == f"{tmp_path}/long_words.py:LongWords,param.min_letters=4"
    assert mapped(word, "long,long;no longer") == [("long", 2), ("longer", 1)]
    source = (tmp_path / "long_words.py").read_text()
    assert "limit = 3" not in source
    assert "Matching" not in source
    assert source.index("class Base") < source.index("class LongWords")


def test_a_class_within_a_block(cell, tmp_path):
    assert mapped(job_word(cell.Inner, tmp_path), "a") == [("a", 1)]


def test_what_cannot_be_written_down_is_an_error_that_names_it(cell, tmp_path):
    with pytest.raises(railyard.UsageError, match="uses PATTERN, a Pattern: need it in a module"):
        job_word(cell.Matching, tmp_path)


def test_a_class_of_a_module_is_its_file(tmp_path):
    class Local(railyard.Job):
        pass

    word = job_word(Local, tmp_path)
    assert word == f"{__file__}:Local"
    assert list(tmp_path.iterdir()) == []


def test_parameters_that_no_word_can_have(cell, tmp_path):
    class Named(railyard.Job):
        text: str = ""
        raw: bytes = b""

    with pytest.raises(railyard.UsageError, match="text = 'a,b'"):
        job_word(Named(text="a,b"), tmp_path)
    with pytest.raises(railyard.UsageError, match="raw = b'x'"):
        job_word(Named(raw=b"x"), tmp_path)


def test_files_are_there_while_they_are_needed(cell):
    with job_words([cell.LongWords, "terasort"]) as asked_for:
        own, other = asked_for.words
        assert asked_for.plain(own) == "long_words.py:LongWords"
        file = Path(own.partition(":")[0])
        assert file.is_file()
        assert other == "terasort"
    assert not file.exists()
