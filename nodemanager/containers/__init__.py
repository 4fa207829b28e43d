"""The processes under a NodeManager: helpers and attempts, forked without ZeroMQ.

Not here: what attempts compute, and ZeroMQ.
Open ``containers`` first.
"""
