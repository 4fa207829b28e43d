"""Workloads: jobs over time, by size and shape; traces, generators, and mixes of real jobs.

Not here: real jobs (``jobs.samples``).
Open ``model`` first; ``catalog`` finds a workload by its name and options, ``mixes`` reads mixes.

Each family of workloads has a file that says what its source leaves open and what was chosen here.
"""
