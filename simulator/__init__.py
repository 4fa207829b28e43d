"""Simulations: the real core and the real fabric, driven from event to event in virtual time.

Not here: decisions, sockets and real time.
Open ``simulation`` first.
"""
