"""Daemons that die in virtual time, and how their successors go on, as on real clusters.

Not here: when they die, which ``simulator.faults`` says.
Open ``resourcemanager`` first.
"""
