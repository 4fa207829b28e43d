"""The ResourceManager: the scheduler interface, the core, the schedulers, and the daemon.

Not here: running tasks (``railyard.nodemanager``) and setting rates (``railyard.netemu``).
Open ``interface`` first.
"""
