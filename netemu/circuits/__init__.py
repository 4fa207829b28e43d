"""Circuits as links: pairs of racks, the optical switch, and who gets a circuit.

Not here: names of flows, coflows and links, which ``fabric.optics`` has; how links are shared,
which ``kernel`` has.
Open ``arrays`` first, which has the idea, then ``pairs``.
"""
