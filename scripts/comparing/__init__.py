"""The same jobs under several schedulers, on either clock or both, as figures.

Not here: pages and pictures (``report``).
Open ``contest`` first.
"""
