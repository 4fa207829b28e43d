"""Simulated nodes: their attempts, their disks, how they differ from ideal ones.

Not here: decisions; those are the core's, the NameNode's and the fabric's.
Open ``workers`` first.
"""
