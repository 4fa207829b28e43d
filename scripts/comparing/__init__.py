"""The same jobs under several schedulers, on either clock or both, side by side.

Not here: pages and pictures (``report``).
Open ``comparison`` first.
"""
