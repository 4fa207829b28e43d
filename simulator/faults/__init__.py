"""What goes wrong in a simulated cluster: schedules of faults, random scenarios.

Not here: how nodes bear it.
Open ``faultspec`` first.
"""
