"""Plots, and the pages of runs and comparisons, made from the files that runs left in folders.

Not here: numbers of a comparison (``experiments``).
Open ``pages`` first; ``templates`` has the HTML of pages, ``gateway.page`` what draws in them.
"""
