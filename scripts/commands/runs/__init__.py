"""Commands that run something and leave results: jobs, simulations, comparisons, experiments."""
