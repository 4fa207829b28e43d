"""Replica placement: HDFS's rule, keyed random draws, and the nodes' loads.

Not here: clocks, files, and randomness without a seed.
Open ``rule`` first.
"""
