"""What the core knows: nodes, jobs, stages, tasks, attempts, and what was recorded of each job.

Not here: decisions, and what follows from an event; that is for the parts of the core above.
Open ``jobs`` first, then ``cluster``.
"""
