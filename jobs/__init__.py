"""How jobs are written, shipped and run; the sample jobs.  See ``jobs.model``."""

from railyard.jobs.formats import FixedRecords, Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import Map, Reduce

__all__ = ["FixedRecords", "Job", "Lines", "Map", "Reduce", "Stage"]
