"""Several jobs at once: which, how large, whose, when; as real jobs and as a workload.

Not here: workloads by size alone (``jobs.workloads``).
Open ``mixes`` first.
"""
