"""Correlation: how well two columns of a table agree in rank; its graph has a diamond.

Not here: tables that are joined (``jobs.samples.query``).  Open ``job`` first.
"""
