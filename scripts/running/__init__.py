"""Real jobs on a cluster, from the request to the checked output.

Not here: starting clusters, and simulations.
Open ``work`` first.
"""
