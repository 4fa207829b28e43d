"""Blocks and their replicas: where they are, which are doubtful, copied, moved or deleted.

Not here: files and folders, and the messages that DataNodes send.
Open ``blockmap`` first, then ``replication``.
"""
