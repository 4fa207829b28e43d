"""Self-Join: associations of k items that are joined to candidates of k + 1, as in Apriori.

A job of the PUMA suite.  Not here: counting which candidates are frequent.  Open ``job`` first.
"""
