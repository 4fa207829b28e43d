"""Files and folders on this machine: run folders, bulk reads, durable writes, full disks.

Not here: the formats of files.
Open ``runfolder`` first.
"""
