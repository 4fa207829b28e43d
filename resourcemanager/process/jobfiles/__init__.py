"""The files that jobs read and write: what the ResourceManager asks of the NameNode.

Not here: the files' bytes, which it never sees.  Open ``outputs.py`` first.
"""
