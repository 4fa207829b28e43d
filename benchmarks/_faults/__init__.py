"""Schedules of faults by the thousand, and bugs that are planted to see whether they are found.

Not here: schedules and laws themselves (``simulator.faults``).
Open ``running`` first.
"""
