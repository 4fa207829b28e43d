"""Nodes that are emptied: what they have yet, and what others are asked for.

Not here: what a core does without a node's slots.  Open ``drains.py`` first.
"""
