"""The jobs that come with Railyard, with generators of their input and checks of their output.

Not here: how jobs are written (``jobs.model``).
Open ``catalog`` first.
"""
