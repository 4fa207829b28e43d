"""Sequence-Count and Ranked-Inverted-Index: three words in a row, and the documents that have them.

Two jobs of the PUMA suite, the second on the output of the first.  Not here: counts of single words
(``jobs.samples.words.wordcount``).  Open ``count`` first, then ``rank``.
"""
