"""The NodeManager of a rack: slots, task attempts, map output and the shuffle service.

Not here: which task runs where; the ResourceManager decides.
Open ``process`` first.
"""
