"""What both clocks need around the core: its log of events, its reports and traces.

Imports ``core`` and ``schedulers``.  Not here: sockets, and decisions about jobs.
Open ``coredriver`` first.
"""
