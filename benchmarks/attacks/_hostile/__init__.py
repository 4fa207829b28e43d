"""Hostile messages: wrong values for every field, made into frames and sent to every socket.

Not here: which trials are made (``frames``, one room up).
Open ``frames`` first.
"""
