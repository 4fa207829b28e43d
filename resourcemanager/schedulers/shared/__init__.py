"""What several schedulers use: racks as sites, jobs that keep to some racks, moves of blocks.

Not here: a scheduler of its own, or what one scheduler alone needs.  Open ``sites`` first.
"""
