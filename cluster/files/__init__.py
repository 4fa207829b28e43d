"""Files and folders on this machine: run folders, bulk reads, lasting writes, full disks.

Not here: what is in them.
Open ``runfolder`` first.
"""
