"""The network emulator as a daemon: drives the fabric with real time, turns rates into grants.

Not here: rates, and bytes.
Open ``process`` first.
"""
