"""The DataNode: the block files of a rack's nodes, the write pipeline, the daemon.

Not here: which node should hold which replica; the NameNode decides that.
Open ``process`` first.
"""
