"""Joint: tasks and network flows scheduled as one.

The files are the paper's sections: ``dispatcher`` IV-B, ``switches`` and ``flowlist`` III and
IV-C, ``taskcompletion`` Algorithm 1, ``earlieststart`` IV-C.4, ``flowcompletion`` Algorithm 2; task
graphs and the servers' queues (IV-D) are in ``schedulers/shared/serverqueues``.  A server is a
node.
Not here: flows' rates, which the network sets (flow scheduler ``afap``).
Open ``scheduler`` first.
"""
