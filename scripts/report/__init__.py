"""Plots and the page of a comparison, made from the files that runs left in their folders.

Not here: numbers of a comparison (``comparing``).
Open ``page`` first.
"""
