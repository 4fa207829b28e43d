"""How the NameNode's changes come to the disk: a journal in SQLite, and one sync for many changes.

Not here: what the changes are (``journal``), nor what they mean (``namespace``).
Open ``sqlite_journal`` first.
"""
