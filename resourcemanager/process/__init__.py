"""The ResourceManager as a daemon: messages become events, commands become messages.

Above all other rooms.  Not here: a decision about jobs, tasks or slots.
Open ``main`` first.
"""
