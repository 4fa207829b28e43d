"""``hadoop fs`` and ``hdfs dfs``: Hadoop's file system shell.

Not here: anything about jobs, and anything that imports the rest of Railyard.
Open ``fsshell`` first.
"""
