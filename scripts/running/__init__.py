"""Real jobs on a cluster, from what was asked for to the checked output.

Not here: starting clusters, and simulations.
Open ``work`` first.
"""
