"""The topologies that come with Railyard, a TOML file for each, and the tables of such a file.

Not here: what a topology is once it is read (``cluster.topology``).
Open ``tables`` first.
"""
