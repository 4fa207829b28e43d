"""Plots, and the pages of runs and comparisons, made from the files that runs left in folders.

Not here: numbers of a comparison (``comparing``).
Open ``page`` first; ``browser`` has the JavaScript that draws in pages, ``templates`` their HTML.
"""
