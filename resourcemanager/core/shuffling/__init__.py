"""Who fetches which output when: the shuffle of each stage.

A part of the core, with the core's rules.  Not here: how bytes travel.
Open ``shuffle`` first.
"""
