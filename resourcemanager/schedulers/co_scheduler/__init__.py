"""Co-scheduler: racks and circuits for jobs on a network of packet and circuit switches.

Not here: what other schedulers use as well (see ``shared``).
Open ``scheduler`` first, the paper's Algorithm 2; then ``dataguideline`` (IV-D), ``reduceschedule``
(IV-E and F, Algorithm 1) and ``guidelines``, which keeps both for all running jobs.
"""
