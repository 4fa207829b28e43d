"""Messages between processes: their form, the sockets, the event loop that serves them.

Not here: what is said (see ``cluster.messages`` and each part's ``messages``).
Open ``transport`` first.
"""
