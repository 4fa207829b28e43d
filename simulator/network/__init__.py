"""The simulated network: flows in virtual time.

Not here: rates (``netemu.fabric``), and what is heard late or never (``simulator.silence``).
Open ``network`` first.
"""
