"""What commands have in common on a terminal: options, progress, interrupts.

Not here: what a command does.
Open ``options`` first.
"""
