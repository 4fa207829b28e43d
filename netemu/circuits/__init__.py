"""The optical circuit switch: which flows wait for circuits, which pairs get them, what they carry.

Pure.  Not here: rates of flows that go by packets, and the fabric, which applies the plane's moves.
Open ``plane`` first; ``policies`` decides which pairs get circuits, ``fast`` is for many flows.
"""
