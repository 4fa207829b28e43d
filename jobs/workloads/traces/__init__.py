"""Files of users and of public traces, read as workloads.

Not here: generators.
Open ``swim`` first.
"""
