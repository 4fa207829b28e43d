"""The fluid model of the network: links, ways, flows, and their rates between events.

Pure.  Not here: who should have which rate (``schedulers``) or circuit (``circuits``).
Open ``fabric`` first.
"""
