"""Commands that run something and leave results: jobs, simulations, comparisons, experiments.

Not here: how any of it is run; the other rooms of ``scripts`` do that.
Open ``run`` first.
"""
