"""HEFT: whole jobs are planned as they come, by upward ranks and insertion.

Not here: the servers' queues in which planned tasks wait (``schedulers/shared/serverqueues``).
Open ``scheduler`` first.
"""
