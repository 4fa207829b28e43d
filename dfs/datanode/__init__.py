"""The DataNode: the block files of a rack's nodes, the write pipeline, the daemon.

Not here: which node should have which replica; the NameNode decides.
Open ``process`` first.
"""
