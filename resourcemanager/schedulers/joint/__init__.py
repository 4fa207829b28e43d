"""Joint: tasks and network flows scheduled as one.

The files are the paper's sections: ``dispatcher`` IV-B, ``taskgraph``, ``switches`` and
``flowlist`` III and IV-C, ``taskcompletion`` Algorithm 1, ``earlieststart`` IV-C.4,
``flowcompletion`` Algorithm 2, ``servers`` IV-D.  A server is a node.
Not here: flows' rates, which the network sets (flow scheduler ``afap``).
Open ``scheduler`` first.
"""
