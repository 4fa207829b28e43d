"""A network emulator with real senders and receivers, and the transfers that it is given.

Not here: bounds (``fidelity``).
Open ``emulated`` first.
"""
