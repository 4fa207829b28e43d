"""The live page: a cluster as it is now, or a run that has ended at any time of it.

The gateway serves the first, ``railyard view`` the second.  Pages of runs and comparisons look
alike and draw with the same code.  Not here: those pages' tables and words (``report``).
Open ``history`` first: the rows that the page gets; ``browser`` has the JavaScript that draws.
"""
