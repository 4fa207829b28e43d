"""Reference programs in exact fractions, and random cases that hold the fabric against them.

Not here: bounds, and the time that anything takes (``railyard.benchmarks.fabric``).
Open ``differential`` first.
"""
