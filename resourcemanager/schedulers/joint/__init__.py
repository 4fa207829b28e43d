"""Joint: tasks and network flows scheduled as one.

The files are the paper's sections: ``scheduler`` has IV-A, IV-B and both algorithms of IV-C,
``switches`` III, IV-C's flow list and Earliest Start Time, ``servers`` IV-D and the task graphs,
which HEFT uses as well.  A server is a node.
Not here: flows' rates, which the network sets (flow scheduler ``afap``).
Open ``scheduler`` first.
"""
