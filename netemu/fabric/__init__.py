"""The fluid model of the network: open flows, how they go, and their rates between events.

Pure.  Not here: who should have which rate (``schedulers``) or circuit (``circuits``).
Open ``fabric`` first; then ``ways``, how flows go, and ``rates``, how fast.
"""
