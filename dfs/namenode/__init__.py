"""The NameNode: namespace, block map and replication (pure), the journal, the daemon.

Not here: the bytes of files.
Open ``core`` first: its ``handle`` is the only way to change anything.
"""
