"""Shadow: a few maps run twice, so that the shuffle loads all racks' links alike; its baselines.

Not here: how reads are divided among replicas (``dfs.placement``), late tasks' copies
(``interface.speculation``).  Open ``scheduler`` first, then ``algorithms`` (sections 3, 4.2, 4.3
and 5.2, Fig. 9, as numbers) and ``reduces`` (the end of 4.2).  ``baselines`` are KMN and Even;
``pairs`` is what Shadow and KMN share.
"""
