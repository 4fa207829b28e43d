"""What goes wrong in a simulated cluster, and when.

Not here: how nodes bear it, and schedules of faults by the thousand (``benchmarks._faults``).
Open ``faultspec`` first.
"""
