"""WebHDFS: the block store by HTTP, as HDFS's own clients expect it.

Not here: who may call it (``gateway.http.guard``), and how bytes travel (``gateway.stores``).
Open ``operations`` first.
"""
