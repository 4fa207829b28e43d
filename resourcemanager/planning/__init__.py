"""Planning ahead: which racks each known job gets, and when, before any of them comes.

Source: Corral (Jalaparti et al., SIGCOMM 2015), sections 3 and 4.  From profiles of jobs
(``profiles``) and what is recorded of their earlier runs (``runs``) to how long each takes on so
many racks (``latency``), to the racks and times of all (``planner``), to a file (``planfile``).
Pure: nobody here knows a clock, or whether a scheduler will keep to the plan.
"""
