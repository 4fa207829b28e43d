"""Where attacks take place: homes, the trials made in them, and the guard that cleans up.

Not here: an attack.
Open ``trials`` first.
"""
