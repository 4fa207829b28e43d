"""Co-scheduler, its pure parts: how many racks, how many reduces on each, and which racks."""
