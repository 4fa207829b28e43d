"""How results are shown: data frames, pictures, text and HTML.

Not here: the results themselves.
Open ``pictures`` first.
"""
