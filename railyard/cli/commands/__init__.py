"""One file for each command that people type after ``railyard``.

A command reads what was typed, calls the other rooms, prints.  Not here: what several commands do.
Open ``registry`` first: the list.
"""
