"""Corral: racks for the data and the tasks of jobs that recur, planned ahead.

Not here: what other schedulers use as well (see ``shared``).
Open ``scheduler`` first; ``planner`` is the paper's section 4.
"""
