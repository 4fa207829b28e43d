"""The same jobs under several schedulers, on either clock or both, and the papers' experiments.

Not here: pages and pictures (``report``).
Open ``comparison`` first.
"""
