"""The record of a run's network, ``network.jsonl``: bytes of links and circuits of coflows by time.

Not here: what happens in the network (``fabric``, ``circuits``), and when a sample is taken.
Open ``links`` first, which has the file's format.
"""
