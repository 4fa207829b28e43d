"""``railyard reproduce``: the experiments of published papers, run again in virtual time.

Not here: schedulers and workloads.
Open ``papers`` first: the list; each is a file, or a folder, with its figures.

``figures`` defines an experiment, ``smaller`` reduces it to a size that runs in minutes,
``runs`` carries it out, ``measures`` turns runs into numbers, and ``values`` and ``table`` put them
beside the published ones.
"""
