"""What several schedulers use: jobs that keep to some racks, racks as sites.

Not here: a scheduler of its own, or what one scheduler alone needs.
Open ``rackbound`` first.
"""
