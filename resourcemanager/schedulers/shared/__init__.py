"""What several schedulers use: jobs bound to racks, shuffles that start late.

Not here: a scheduler of its own, or what one scheduler alone needs.
Open ``rackbound`` first.
"""
