"""Compiled loops that several fast flow schedulers share: rows, water-filling, levels.

Nothing in here knows one particular flow scheduler.  Open ``rows.py`` first.
"""
