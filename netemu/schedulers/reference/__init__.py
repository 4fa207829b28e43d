"""Each flow scheduler as its paper has it: a file opens with its source and what is chosen here.

Nothing in here may depend on ``fast/`` or on compiled loops.  Open ``fifo.py`` first.
"""
