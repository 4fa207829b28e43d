"""What people call from Python, such as ``railyard.simulate``; the results as typed objects.

Commands call the same functions, with the requests that they parse.
Not here: parsing a command line, printing, and how anything is run: that is in the rooms below.
Open ``studies`` first.
"""
