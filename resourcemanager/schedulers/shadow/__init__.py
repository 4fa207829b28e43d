"""Shadow: a few maps run twice, so that the shuffle loads all racks' links alike; its baselines.

Not here: how reads are divided among replicas (``dfs.placement``), late tasks' copies
(``interface.speculation``).  Open ``scheduler`` first, then ``pairs``, which KMN has as well, and
``reduces`` (the end of 4.2).  ``baselines`` are KMN and Even.
"""
