"""How flows share links from event to event: the loops that plain Python runs and numba compiles.

The loops know no names: flows, rows, groups and links are numbers, and all that is known of them
stands in arrays.  They are written in what both can run: scalars, loops, and arrays by index.

    state      the arrays
    rows       flows join rows and leave them
    ways       which links limit flows, and which rows they join there
    filling    groups in order, each in proportion to the bytes that its rows have left
    levels     rates kept up to date: groups in order, each max-min
    lines      flows one by one, in the order of bytes or of priority
    compiled   the same functions, compiled
    pointers   how these get the arrays

Not here: who is served first, which flow schedulers say.
Open ``state`` first, then ``levels``.
"""
