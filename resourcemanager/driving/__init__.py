"""What both clocks need around the core: how it is made and fed, its log, reports and traces.

Imports ``core`` and ``schedulers``.  Not here: sockets, and decisions about jobs.
Open ``coredriver`` first.
"""
