"""What a NameNode needs in place of one that died: safe mode, and the answers that it gave.

Not here: the journal itself (``durable``), and who is restarted when (``cluster.processes``).
Open ``safemode`` first.
"""
