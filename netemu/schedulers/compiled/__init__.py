"""The flow schedulers for crowds: the same rates as theirs, worked out by compiled loops.

``FlowScheduler.compiled`` leads here.  Importing this costs half a second and 70 MB, and a first
run on a machine some seconds, in which the loops are compiled and written to ``__pycache__``; so
only a simulation with many open flows does.
"""
