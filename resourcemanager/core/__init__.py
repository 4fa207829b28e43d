"""Jobs, stages, attempts and slots: the pure state machine that carries out what policies decide.

Imports ``interface`` alone.  Not here: a scheduler's name, a clock, a socket.
Open ``core`` first: its ``handle`` is the only door.
"""
