"""One file for each command that people type after ``railyard``.

A command reads what was typed, calls the other rooms, prints.  Not here: work of more than one command.
Open ``registry`` first: the list.
"""
