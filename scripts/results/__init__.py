"""What a run leaves for people and programs: the summary and the network's record.

Not here: comparisons of several runs.
Open ``summary`` first.
"""
