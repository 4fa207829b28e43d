"""How the tasks of a stage are spread over sites, by slots and wide-area links together.

Not here: jobs, and slots that come free.  All pure.
Open ``model`` first (the two problems in the paper's words), then ``general`` (as linear programs)
and ``exact`` (the same optima in microseconds).

Source: Hung et al., "Wide-Area Analytics with Multiple Resources", EuroSys 2018 (Tetrium),
sections 3 and 4.
"""
