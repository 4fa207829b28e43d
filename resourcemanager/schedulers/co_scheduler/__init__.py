"""Co-scheduler: racks and circuits for jobs on a network of packets and circuits.

Not here: what other schedulers use as well (see ``shared``).
Open ``scheduler`` first; ``planner`` is the paper's Algorithm 2.
"""
