"""What several schedulers use.

Not here: a scheduler of its own, or what one scheduler alone needs.
Open ``rackbound`` first.
"""
