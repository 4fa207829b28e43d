"""What the ResourceManager has to do with the network: orders, counters, links that change.

Not here: what the core decides about flows.  Open ``orders.py`` first.
"""
