"""Runs: clusters on this machine, jobs on them, simulations, and what each leaves in files.

Not here: several runs side by side (``experiments``) and how they look (``report``).
Open ``work`` first, then ``simulation``.
"""
