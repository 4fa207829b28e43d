"""Processes and their ends: parents and children, the supervisor, restarts, priorities.

Not here: what a daemon does.
Open ``supervisor`` first.
"""
