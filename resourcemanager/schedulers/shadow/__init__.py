"""Shadow: a few maps run twice, so that the shuffle loads all racks' links alike; its baselines.

Not here: how reads are divided among replicas (``dfs.placement``), late tasks' copies
(``interface.speculation``).  Open ``scheduler`` first, then ``duplication`` (section 4.2),
``selection`` (4.3), ``bandwidth`` (5.2, Fig. 9), ``reduces`` (the end of 4.2) and ``loads`` (3).
``kmn`` and ``even`` are its baselines; ``pairs`` is what Shadow and KMN share.
"""
