"""``aalo`` and ``aalo+weighted``, compiled.

Not here: how groups share links (``fast.fairshares``, ``fast.loops``).
Open ``scheduler`` first; then ``queues``, and ``ahead``, many events in one call.
"""
