"""The virtual clock: drives the real core and fabric from event to event.

Not here: decisions, sockets and real time.
Open ``cluster`` first.
"""
