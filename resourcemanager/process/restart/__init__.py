"""How a ResourceManager that died is replaced: its journal, and what it settles with others.

Not here: the messages of a run as usual, which are beside this room.  Open ``journal.py`` first.
"""
