"""The fluid model of the network: open flows, and how fast they go between events.

Pure.  Not here: who comes first (``schedulers``) or has a circuit (``circuits``), and the loops
that go from event to event (``kernel``).
Open ``fabric`` first; then ``planning``, how a flow scheduler is followed, and ``store``.
"""
