"""The life of tasks and attempts: launch, success, failure, kill, and what is done again.

Not here: which task runs where (``offers``), when a job is over (``joblife``).
Open ``attempts`` first.
"""
