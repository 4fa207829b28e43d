"""Readers of trace files as workloads.

Not here: generators.
Open ``swim`` first.
"""
