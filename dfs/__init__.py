"""The block store: a NameNode, a DataNode per rack, and the client that reads and writes files.

Not here: bandwidth (``railyard.netemu``) and the contents of files (``railyard.jobs``).
Open ``messages`` first, then ``client``, which other parts use.

The pure parts (``paths``, ``placement``, ``namenode.core`` and its modules) also run in the
simulator.  All sizes and offsets are stored bytes: real bytes on disks and sockets.
"""
