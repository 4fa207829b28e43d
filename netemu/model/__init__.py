"""The records that all rooms of the network share: flows, paths, rows of arrays, circuits.

Not here: whatever decides, or changes anything but itself.
Open ``traffic`` first: what a flow scheduler sees.
"""
