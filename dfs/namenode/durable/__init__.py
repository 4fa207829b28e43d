"""The durable journal: SQLite, and group commit (one sync for many changes).

Not here: the form of changes (``journal``) and their rules (``namespace``).
Open ``sqlite_journal`` first.
"""
