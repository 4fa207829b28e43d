"""Tetrium: slots and wide-area links together, for jobs whose data lies at many sites.

Not here: moves of data before jobs come (``schedulers.iridium``).
Open ``scheduler`` first (sections 4.1 and 4.4), then ``stageplans`` (3.3, 3.4 and 5) and
``placement`` (3.1, 3.2, 4.2 and 4.3), whose problems ``general`` solves as linear programs and
``exact`` in microseconds.
"""
