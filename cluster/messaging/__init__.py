"""Messaging between processes: wire format, sockets, and the event loop that serves them.

Not here: the messages themselves (see ``cluster.messages`` and each part's ``messages``).
Open ``transport`` first.
"""
