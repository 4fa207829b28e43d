"""The two jobs that count words, and the text that is generated for them.

Not here: sequences of words (``jobs.samples.sequences``).  Open ``wordcount`` first.
"""
