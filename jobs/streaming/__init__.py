"""Hadoop Streaming: jobs whose mappers and reducers are programs that read and write lines.

Pure: what a program is given and what its bytes mean.  Not here: starting programs, which is
behind ``TaskIO.programs``, and the words of the command line.
Open ``job`` first.
"""
