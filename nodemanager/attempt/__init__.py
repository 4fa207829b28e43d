"""A task attempt in its own process: reads or fetches, computes, writes.

Not here: starting processes.
Open ``main`` first.
"""
