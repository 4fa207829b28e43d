"""Corral: racks for the data and the tasks of jobs that recur, planned ahead.

Not here: what other schedulers use as well (see ``shared``).
Open ``scheduler`` first (section 5), then ``planner`` (4.1 and 4.2) and ``latency`` (4.3).
"""
