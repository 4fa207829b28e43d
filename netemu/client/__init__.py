"""The side of senders and receivers: asks for flows, sends no byte without a grant.

All that other parts may import of ``netemu`` besides its messages and pure rooms.
Open ``client`` first.
"""
