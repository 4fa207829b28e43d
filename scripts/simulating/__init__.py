"""Jobs and coflows in virtual time, one run or many.

Not here: clusters of real processes.
Open ``virtual`` first.
"""
