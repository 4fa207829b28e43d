"""Senders and receivers: they ask for flows, and send no byte without a grant.

Other parts import this room, ``netemu.messages`` and the pure rooms, nothing else of ``netemu``.
Not here: rates.
Open ``client`` first.
"""
