"""What each request passes, whatever it asks for: connections, who may ask, bodies, errors.

Not here: anything about the block store or about jobs.  Open ``guard`` first.
"""
