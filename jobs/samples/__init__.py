"""The jobs that come with Railyard, by name, with their input and the check of their output.

Not here: how jobs are written (``jobs.model``).
Open ``catalog`` first.
"""
