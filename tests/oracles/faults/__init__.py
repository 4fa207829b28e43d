"""Schedules of faults by the thousand, their laws, and planted bugs, to see if these are found.

Not here: faults themselves (``simulator.faults``).
Open ``running`` first.
"""
