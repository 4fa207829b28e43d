"""The query: a job of five stages over two tables, in SQL.

Not here: how other samples are written; their steps are those of ``jobs.samples.steps``.
Open ``job`` first.
"""
