"""Results of a run for people and programs: its folder, its summary, its network's record.

Not here: comparisons of several runs.
Open ``folder`` first.
"""
