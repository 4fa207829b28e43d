"""Messages between parts that must not import one another.

Not here: messages within one part (each part's ``messages``), and how they are sent.
Open ``execution`` first: the messages between the ResourceManager and the NodeManagers.  ``spans``
is how both clocks add up the times in them.
"""
