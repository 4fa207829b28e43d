"""The records that all rooms of the network share: flows, paths, links, circuits.

Not here: whatever decides, or changes anything but itself.
Open ``flows`` first, then ``network``.
"""
