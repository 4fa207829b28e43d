"""Joint: tasks and network flows scheduled as one.

The files are the paper's sections: ``scheduler`` has IV-A and IV-B, ``controller`` IV-C with both
algorithms, ``switches`` III and IV-C's flow list, ``servers`` and ``allocations`` IV-D and the task
graphs; HEFT uses these two as well.  A server is a node.
Not here: flows' rates, which the network sets (flow scheduler ``afap``).
Open ``scheduler`` first.
"""
