"""The workloads of the five papers, as generators.

Not here: traces.
Open ``corral`` first.
"""
