"""The foundation of all parts: topology, units, configuration, messages, transport and processes.

Not here: code that only one part needs, and imports of any other part.
Open ``topology`` first.
"""
