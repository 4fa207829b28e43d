"""Commands for the cluster that is up: starting, stopping and looking at it, its files, its links.

Not here: commands that run something there.
Open ``up`` first.
"""
