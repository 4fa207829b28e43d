"""Wrong values for every field, made into frames for every socket; and hostile HTTP requests.

Not here: which trials are made (``frames``, one room up).
Open ``frames`` first; for HTTP, ``requests``.
"""
