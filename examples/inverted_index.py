"""Inverted index: for each word, the documents that have it, those that have it most often first.

    railyard run ./examples/inverted_index.py --input examples/data/documents.txt --get index

A document is a line, "title<TAB>text".  A line of the output is "word<TAB>title:count title:count".
"""

from collections import Counter

from railyard import Job, Lines


class InvertedIndex(Job):
    """Lists the documents of each word of at least `min_letters` letters."""

    input = Lines()
    min_letters: int = 3

    def map(self, line):
        title, tab, text = line.partition("\t")
        if not tab:
            raise ValueError(f'"{line[:40]}": need title<TAB>text')
        words = (word.strip(".,;:!?()").lower() for word in text.split())
        for word, count in Counter(words).items():
            if len(word) >= self.min_letters:
                yield word, (title, count)

    def reduce(self, word, documents):
        ranked = sorted(documents, key=lambda document: (-document[1], document[0]))
        yield word, " ".join(f"{title}:{count}" for title, count in ranked)
