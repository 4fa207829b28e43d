"""Who may connect, with which keys, and who may say what.

Not here: sockets, and what becomes of a message.
Open ``roles`` first.
"""
