"""Faults on a live cluster, by seed: the plan of them, their doing, and what is right again when.

Not here: faults of simulations, which are ``simulator.faults``.
Open ``plan`` first.
"""
