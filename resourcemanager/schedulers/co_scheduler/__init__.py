"""Co-scheduler: racks and circuits for jobs on a network of packet and circuit switches.

Not here: what other schedulers use as well (see ``shared``).
Open ``scheduler`` first (Algorithm 2); then ``guidelines`` (IV-D), ``reduceschedule`` (IV-E, F).
"""
