"""Commands that list what there is to choose from.

Not here: anything that runs.
Open ``schedulers`` first.
"""
