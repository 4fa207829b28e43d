"""The sort benchmark: its records generated, sorted and checked.

Not here: how other samples are written.  Open ``terasort`` first.
"""
