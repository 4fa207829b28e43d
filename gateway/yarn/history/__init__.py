"""Jobs with their tasks, attempts and counters, as MapReduce's history server tells of them.

Not here: the cluster and its queues, which are the ResourceManager's.  Open ``routes`` first.
"""
