"""Jobs: how they are written, shipped to the nodes, and run record by record.

Not here: where and when tasks run, and how their data is transferred.
Open ``model`` first.
"""

from railyard.jobs.formats import FixedRecords, Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import Map, Reduce

__all__ = ["FixedRecords", "Job", "Lines", "Map", "Reduce", "Stage"]
