"""Compiled loops that several flow schedulers share: rows, water-filling, levels.

Nothing in here knows any one flow scheduler.  Open ``rows.py`` first.
"""
