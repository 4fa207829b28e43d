"""Process management: forking, the supervisor, restarts, cleaning up, priorities.

Not here: the work of daemons.
Open ``supervisor`` first.
"""
