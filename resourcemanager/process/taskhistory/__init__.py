"""What has become of each task of the latest jobs, for those who ask: histories, dashboards.

Not here: anything that decides; the core knows nothing of it.  Open ``kept`` first.
"""
