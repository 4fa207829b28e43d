"""Clusters on this machine: their folders, their start and end, conversations with them.

Not here: jobs.
Open ``launch`` first.
"""
