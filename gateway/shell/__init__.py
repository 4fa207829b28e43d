"""The commands ``hadoop``, ``hdfs`` and ``yarn``, which speak to the gateway by HTTP.

Scripts call them many times, so they import nothing but a few modules of Python's own library.
Not here: anything that imports the rest of Railyard.
Open ``main`` first.
"""
