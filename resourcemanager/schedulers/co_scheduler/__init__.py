"""Co-scheduler: racks and circuits for jobs on a network of packet and circuit switches.

Not here: what other schedulers use as well (see ``shared``).
Open ``scheduler`` first, the paper's Algorithm 2; then ``guidelines`` (IV-D) and ``reduceschedule``
(IV-E and F, Algorithm 1).
"""
