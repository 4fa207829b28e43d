"""How jobs are written, shipped and run; the sample jobs.  See ``jobs.model``."""

from jobs.formats import FixedRecords, Lines
from jobs.model import Job, Stage
from jobs.operators import Map, Reduce

__all__ = ["FixedRecords", "Job", "Lines", "Map", "Reduce", "Stage"]
