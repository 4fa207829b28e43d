"""Daemons that are stopped or die, as a layer: what they were told is heard later, or by another.

Not here: what goes wrong when (``simulator.faults``), and the network that is up.
Open ``daemons`` first.
"""
