"""Schedulers that put tasks into queues of servers before there are slots for them.

Which server a task is put on is a scheduler's to say (``joint``, ``heft``).
Not here: anything of one of them alone.
Open ``localschedulers`` first.
"""
