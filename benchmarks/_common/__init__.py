"""What several benchmarks use: the same jobs on both clocks, and the public traces.

Not here: bounds of a benchmark.
Open ``bothclocks`` first.
"""
