"""What all parts share: topology, units, configuration, messages, transport and processes.

Not here: what one part alone needs, and imports of any other part.
Open ``topology`` first.
"""
