"""Simulations whose daemons die or are stopped, schedules of faults by the thousand, their laws.

Bugs are planted, too, to see if they are found.

Not here: faults of nodes, disks and links (``simulator.faults``), and of live clusters (``chaos``).
Open ``scenarios`` first.
"""
