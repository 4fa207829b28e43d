"""Clusters on this machine: their folders, starting and stopping them, sessions with them.

Not here: jobs.
Open ``launch`` first.
"""
