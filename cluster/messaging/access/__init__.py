"""Access control: who may connect, with which keys, and which roles may send which messages.

Not here: sockets, and the handling of messages.
Open ``roles`` first.
"""
