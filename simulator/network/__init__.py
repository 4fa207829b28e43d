"""The simulated network: flows in virtual time, while it or those who send are stopped, or it dies.

Not here: rates, which are the fabric's (``netemu.fabric``).
Open ``network`` first.
"""
