"""The optical circuit switch: what waits for circuits, which there should be, what they carry.

Pure.  Not here: rates of flows that go by packets, and the fabric, which applies the plane's moves.
Open ``plane`` first; who gets a circuit is decided in ``policies``.
"""
