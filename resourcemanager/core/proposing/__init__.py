"""What policies propose: asked, checked and carried out.

Not here: answers to offers of slots, which ``core/offers.py`` checks.
Open ``proposals`` first, then the kind that you look for.
"""
