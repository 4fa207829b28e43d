"""Tetrium: slots and wide-area links together, for jobs whose data lies at many sites.

Not here: moves of data before jobs come (``schedulers.iridium``).
Open ``scheduler`` first (sections 4.1, 4.4), then ``stageplans`` (3.3, 3.4, 5) and ``placement``
(3.1, 3.2, 4.2, 4.3), solved by ``general`` as linear programs and by ``exact`` in microseconds.
"""
