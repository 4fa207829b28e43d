"""``railyard reproduce``: the experiments of published papers, run again in virtual time.

``figures.py`` says what an experiment is made of, ``measures.py`` how a number comes of runs,
``smaller.py`` how an experiment is made small enough, ``carryout.py`` runs what the figures need
and ``results.py`` and ``table.py`` tell what came out, beside what was published.  Each paper is a
file with its figures, listed in ``papers.py``.
"""
