"""The gateway: HTTP for clients that speak Hadoop's own interfaces.

A process of the cluster that holds no state of its own: it asks the NameNode and the DataNodes as
any client does.  Not here: what the answers are made of.  Open ``process`` first.
"""
