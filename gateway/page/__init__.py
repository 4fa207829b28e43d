"""What pages look like and draw with, shared by the pages of runs and the live page.

Not here: the tables and words of the pages of runs and comparisons (``scripts.report``).
Open ``assets`` first; ``browser`` has the JavaScript that draws.
"""
