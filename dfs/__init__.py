"""The block store: a NameNode, a DataNode a rack, and the client that reads and writes files.

``messages`` is what they say to one another, ``client`` is what other parts use.  The pure parts
(``paths``, ``placement``, ``namenode.core`` and what it is made of) run in the simulator too.
All sizes and offsets in here are stored bytes: real bytes on disk and on sockets.
"""
