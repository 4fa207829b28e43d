"""Generators of the workloads of the five papers.

Not here: traces.
Open ``corral`` first.
"""
