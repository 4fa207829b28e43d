"""The ResourceManager's REST interface, as YARN's clients expect it.

Not here: who may call it (``gateway.http.guard``), and what the ResourceManager decides.
Open ``cluster`` first.
"""
