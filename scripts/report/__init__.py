"""Pictures and a page of runs, made of what the runs left in their folders."""
