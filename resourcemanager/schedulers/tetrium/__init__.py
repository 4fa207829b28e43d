"""Tetrium: slots and wide-area links together, for jobs whose data lies at many sites.

Not here: where a stage's tasks should run (``schedulers/placement``), which is a matter of numbers.
Open ``scheduler`` first (section 4.1), then ``remainingtime`` (4.1, too), ``sitetasks``
(3.3 and 5) and ``sharing`` (4.4).
"""
