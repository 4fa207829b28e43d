"""Explanations: why a task, job, flow, circuit or file of a recorded run went where it did.

The events of a run are replayed through the same core, with an observer of the policies' answers.
Not here: how explanations look (``scripts/results/explained.py``), and reasons of our own making:
what the record does not say is listed as unknown.
Open ``explain`` first.
"""
