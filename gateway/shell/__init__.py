"""The commands ``hadoop``, ``hdfs`` and ``yarn``, which speak to the gateway by HTTP.

Scripts call them many times, so they import nothing but a few modules of Python's own library, and
of ours those that need no more: errors and tables of options, packed files, words of programs.
Not here: anything that imports the rest of Railyard.  Open ``main`` first.
"""
