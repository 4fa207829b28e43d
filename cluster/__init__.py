"""What all parts share: topology, units, configuration, messages, transport and processes."""
