"""The optical circuit switch: what waits for circuits, which there should be, what they carry.

Pure.  Not here: rates of flows that go by packets, and the fabric, which applies the plane's moves.
Open ``policies/base`` for who gets a circuit, ``plane`` for what becomes of flows.
"""
