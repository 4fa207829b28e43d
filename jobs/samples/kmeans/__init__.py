"""K-means: clusters movies by who rated them how; one job for each iteration.

A job of the PUMA suite, on ratings in the layout into which PUMA brings those of Netflix.
Not here: running one iteration after the other.  Open ``job`` first, then ``plan``, which has the
iterations.
"""
