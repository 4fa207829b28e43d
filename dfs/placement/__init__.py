"""On which nodes the replicas of a block go: HDFS's rule, keyed draws, and how full nodes are.

Not here: clocks, files, and any chance but that of a seed.
Open ``rule`` first.
"""
