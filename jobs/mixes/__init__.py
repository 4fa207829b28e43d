"""Mixes of several jobs, with sizes, users and submission times; real, or as a workload.

Not here: workloads by size alone (``jobs.workloads``).
Open ``mixes`` first.
"""
